"""What kwok does to nodes and pods: its Stage documents.

Nodes become Ready and keep the capacity and allocatable numbers that they have; of addresses they get the one where kwok
answers for the kubelet, and keep their own. Pods run in name only, except those for which this rehearsal runs a real process:
kwok leaves their status to whoever runs it.
Source of the format: https://kwok.sigs.k8s.io/docs/user/stages-configuration/.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rehearsal.cluster.commands import KUBELET_ADDRESS_TYPE, LOOPBACK

STAND_IN_ANNOTATION: Final = "rehearsal.efa-ray-train/stand-in"
"""`"true"` on a pod of Ray or its operator: no process is run for it, kwok plays it like any other pod."""
PROCESS_ANNOTATION: Final = "rehearsal.efa-ray-train/process"
"""On a pod, with any value: a process runs for it, and whoever runs it removes the pod once the process has ended."""
RAY_LABEL: Final = "ray.io/node-type"
"""On every pod of a RayCluster, with any value. Source: KubeRay's ray-operator/controllers/ray/utils/constant.go."""
NAME_LABEL: Final = "app.kubernetes.io/name"
OPERATOR_NAME: Final = "kuberay-operator"

# jq: whether a pod is kwok's to play.
_PLAYED: Final = (
    f'.metadata | (.labels["{RAY_LABEL}"] == null and .labels["{NAME_LABEL}"] != "{OPERATOR_NAME}")'
    f' or .annotations["{STAND_IN_ANNOTATION}"] == "true"'
)
_READY: Final = '.status.conditions[]? | select(.type == "Ready") | .status'

_NODE_CONDITIONS: Final = (
    ("Ready", "True", "KubeletReady", "kwok answers for the kubelet"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "no memory is used"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "no disk is used"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "no process runs"),
)

_NODE_STATUS: Final = """
conditions:
{conditions}
addresses:
- type: {address_type}
  address: {address}
daemonEndpoints:
  kubeletEndpoint:
    Port: {{{{ NodePort }}}}
nodeInfo:
  architecture: {{{{ or .status.nodeInfo.architecture "amd64" }}}}
  operatingSystem: {{{{ or .status.nodeInfo.operatingSystem "linux" }}}}
  osImage: {{{{ or .status.nodeInfo.osImage "rehearsal" | Quote }}}}
  kubeletVersion: {{{{ or .status.nodeInfo.kubeletVersion (printf "kwok-%s" Version) | Quote }}}}
  containerRuntimeVersion: {{{{ or .status.nodeInfo.containerRuntimeVersion (printf "kwok://%s" Version) | Quote }}}}
  kernelVersion: {{{{ or .status.nodeInfo.kernelVersion "none" | Quote }}}}
  machineID: {{{{ or .status.nodeInfo.machineID .metadata.uid | Quote }}}}
  systemUUID: {{{{ or .status.nodeInfo.systemUUID .metadata.uid | Quote }}}}
  bootID: {{{{ or .status.nodeInfo.bootID .metadata.uid | Quote }}}}
"""

_POD_RUNNING: Final = """
{{ $now := Now | Quote }}
phase: Running
startTime: {{ $now }}
conditions:
{{ range $type := list "PodReadyToStartContainers" "Initialized" "ContainersReady" "Ready" }}
- {type: {{ $type }}, status: "True", lastTransitionTime: {{ $now }}}
{{ end }}
{{ range .spec.readinessGates }}
- {type: {{ .conditionType | Quote }}, status: "True", lastTransitionTime: {{ $now }}}
{{ end }}
{{ with .spec.initContainers }}
initContainerStatuses:
{{ range . }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  restartCount: 0
  {{ if eq (or .restartPolicy "") "Always" }}
  started: true
  state: {running: {startedAt: {{ $now }}}}
  {{ else }}
  started: false
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now }}, finishedAt: {{ $now }}}}
  {{ end }}
{{ end }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now }}}}
{{ end }}
{{ $hostIPs := NodeIPsWith .spec.nodeName }}
{{ with $hostIPs }}
hostIP: {{ index . 0 | Quote }}
hostIPs:
{{ range . }}
- ip: {{ . | Quote }}
{{ end }}
{{ end }}
{{ with PodIPsWith .spec.nodeName (or .spec.hostNetwork false) .metadata.uid .metadata.name .metadata.namespace }}
podIP: {{ index . 0 | Quote }}
podIPs:
{{ range . }}
- ip: {{ . | Quote }}
{{ end }}
{{ end }}
"""

_POD_COMPLETED: Final = """
{{ $now := Now | Quote }}
phase: Succeeded
conditions:
{{ range $type := list "ContainersReady" "Ready" }}
- {type: {{ $type }}, status: "False", reason: PodCompleted, lastTransitionTime: {{ $now }}}
{{ end }}
containerStatuses:
{{ $statuses := .status.containerStatuses }}
{{ range $index, $container := .spec.containers }}
{{ $started := (index $statuses $index).state.running.startedAt }}
- name: {{ $container.name | Quote }}
  image: {{ $container.image | Quote }}
  imageID: ""
  ready: false
  started: false
  restartCount: 0
  state:
    running: null
    terminated: {exitCode: 0, reason: Completed, startedAt: {{ or $started Now | Quote }}, finishedAt: {{ $now }}}
{{ end }}
"""


def stages() -> list[Mapping[str, object]]:
    """Return the Stage documents: one for nodes, three for pods."""
    return [
        _stage("node-ready", "Node", [_jq(_READY, "NotIn", "True")], [_status_patch(_node_status())]),
        _stage(
            "pod-running",
            "Pod",
            [
                _jq(".metadata.deletionTimestamp", "DoesNotExist"),
                _jq(".status.phase", "In", "Pending"),
                _jq(_PLAYED, "In", "true"),
            ],
            [_status_patch(_POD_RUNNING)],
        ),
        _stage(
            "pod-completed",
            "Pod",
            [
                _jq(".metadata.deletionTimestamp", "DoesNotExist"),
                _jq(".status.phase", "In", "Running"),
                _jq(".metadata.ownerReferences[]? | .kind", "In", "Job"),
                _jq(_PLAYED, "In", "true"),
            ],
            [_status_patch(_POD_COMPLETED)],
        ),
        _stage(
            "pod-deleted",
            "Pod",
            [
                _jq(".metadata.deletionTimestamp", "Exists"),
                _jq(f'.metadata.annotations["{PROCESS_ANNOTATION}"]', "DoesNotExist"),
            ],
            [{"delete": True}],
        ),
    ]


def _node_status() -> str:
    # A change of status moves these times; signs of life in between go into the node's lease.
    conditions = "\n".join(
        f'- {{type: {kind}, status: "{status}", reason: {reason}, message: {message}, '
        "lastHeartbeatTime: {{ Now | Quote }}, lastTransitionTime: {{ Now | Quote }}}"
        for kind, status, reason, message in _NODE_CONDITIONS
    )
    return _NODE_STATUS.format(conditions=conditions, address_type=KUBELET_ADDRESS_TYPE, address=LOOPBACK)


def _stage(
    name: str, kind: str, selector: Sequence[Mapping[str, object]], steps: Sequence[Mapping[str, object]]
) -> Mapping[str, object]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": list(selector)},
            "steps": list(steps),
        },
    }


def _jq(key: str, operator: str, *values: str) -> Mapping[str, object]:
    return {"jq": {"key": key, "operator": operator, **({"values": list(values)} if values else {})}}


def _status_patch(template: str) -> Mapping[str, object]:
    return {"patch": {"subresource": "status", "root": "status", "type": "strategic", "template": template}}
