{{- define "kuberay.name" -}}
{{- .Values.nameOverride | default .Chart.Name -}}
{{- end -}}

{{- define "kuberay.fullname" -}}
{{- $name := include "kuberay.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "kuberay.serviceAccount" -}}
{{- $created := .Values.serviceAccount.name | default (include "kuberay.fullname" .) -}}
{{- ternary $created (.Values.serviceAccount.name | default "default") .Values.serviceAccount.create -}}
{{- end -}}

{{- define "kuberay.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kuberay.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kuberay.labels" -}}
{{ include "kuberay.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The namespaces that the operator works in, as JSON; an empty list stands for all of them. */}}
{{- define "kuberay.watched" -}}
{{- $own := ternary (list .Release.Namespace) list .Values.singleNamespaceInstall -}}
{{- .Values.watchNamespace | default $own | toJson -}}
{{- end -}}

{{- define "kuberay.args" -}}
{{- with include "kuberay.watched" . | fromJsonArray }}
- --watch-namespace
- {{ join "," . }}
{{- end }}
- --log-stdout-encoder
- {{ .Values.logging.stdoutEncoder }}
- --log-file-encoder
- {{ .Values.logging.fileEncoder }}
- --enable-leader-election={{ .Values.leaderElectionEnabled }}
- --enable-metrics={{ .Values.metrics.enabled }}
- --reconcile-concurrency={{ .Values.reconcileConcurrency }}
- --qps={{ .Values.kubeClient.qps }}
- --burst={{ .Values.kubeClient.burst }}
{{- $gates := list }}
{{- range .Values.featureGates }}{{ $gates = append $gates (printf "%s=%t" .name .enabled) }}{{ end }}
{{- with $gates }}
- --feature-gates={{ join "," . }}
{{- end }}
{{- end -}}
