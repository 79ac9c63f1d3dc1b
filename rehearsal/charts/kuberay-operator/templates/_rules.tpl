{{/* What the operator does to objects, after the permissions that its code declares; OpenShift and Gateway API are left out. */}}
{{- define "kuberay.rules" -}}
{{- $read := "get, list, watch" -}}
{{- $write := "get, list, watch, create, update, patch, delete" -}}
rules:
  - {apiGroups: [""], resources: [events, pods/status, services], verbs: [{{ $write }}]}
  - {apiGroups: [""], resources: [pods], verbs: [{{ $write }}, deletecollection]}
  - {apiGroups: [""], resources: [pods/proxy, services/proxy, services/status], verbs: [get, create, update, patch]}
  - {apiGroups: [""], resources: [pods/resize], verbs: [patch]}
  - {apiGroups: [""], resources: [secrets], verbs: [{{ $read }}, create]}
  - {apiGroups: [""], resources: [serviceaccounts], verbs: [{{ $read }}, create, delete]}
  - {apiGroups: [batch], resources: [jobs], verbs: [{{ $write }}]}
  - {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, list, create, update]}
  - {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [{{ $read }}]}
  - {apiGroups: [networking.k8s.io], resources: [ingresses], verbs: [{{ $write }}]}
  - {apiGroups: [networking.k8s.io], resources: [ingressclasses], verbs: [{{ $read }}]}
  - {apiGroups: [rbac.authorization.k8s.io], resources: [roles, rolebindings], verbs: [{{ $read }}, create, update, delete]}
  {{- range $kind := list "rayclusters" "raycronjobs" "rayjobs" "rayservices" }}
  - {apiGroups: [ray.io], resources: [{{ $kind }}], verbs: [{{ $write }}]}
  - {apiGroups: [ray.io], resources: [{{ $kind }}/status, {{ $kind }}/finalizers], verbs: [get, update, patch]}
  {{- end }}
{{- end -}}
