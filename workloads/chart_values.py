"""Values of the three Helm charts: they make each plugin reach its own nodes and no others.

Both device-plugin charts install without an error where no node matches; their DaemonSet then wants 0 pods and the
resource never shows up. So every value that decides where a pod lands is set here, never left to a chart's default;
`python -m rehearsal.check_charts` renders the charts and says which nodes they reach.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

import versions
from infra import labels
from infra.instances import instance

Json: TypeAlias = str | int | float | bool | list["Json"] | dict[str, "Json"] | None
Values: TypeAlias = dict[str, Json]

GPU_TAINT_EFFECT: Final = "NoSchedule"
PLUGIN_NAMESPACE: Final = "kube-system"
"""The plugins mount host paths and the EFA plugin is privileged: no namespace with a Pod Security level takes them."""
OPERATOR_NAMESPACE: Final = "kuberay-system"

NVIDIA_CHART: Final = "nvidia-device-plugin"
EFA_CHART: Final = "aws-efa-k8s-device-plugin"
KUBERAY_CHART: Final = "kuberay-operator"

REPOSITORIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        NVIDIA_CHART: "https://nvidia.github.io/k8s-device-plugin",
        EFA_CHART: "https://aws.github.io/eks-charts",
        KUBERAY_CHART: "https://ray-project.github.io/kuberay-helm",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSpec:
    """What the values depend on."""

    gpu_instance_type: str
    efa_interfaces: int
    """EFA interfaces attached to each GPU node; 0 for a stack without EFA."""
    ray_namespace: str = "ray-train"
    efa_image_repository: str | None = None
    """The EFA plugin's image without its tag. None leaves the chart's, a registry in us-west-2 of partition `aws`."""
    nvidia_image_repository: str | None = None
    """None leaves the chart's default at nvcr.io."""
    kuberay_image_repository: str | None = None
    """None leaves the chart's default at quay.io."""

    def __post_init__(self) -> None:
        """Refuse a type that cannot carry what is asked of it. Raises ValueError."""
        facts = instance(self.gpu_instance_type)
        if facts.gpus == 0:
            raise ValueError(
                f"gpu_instance_type: found {self.gpu_instance_type}, which has no GPU; choose a g or p type"
            )
        if not 0 <= self.efa_interfaces <= facts.efa_interfaces:
            raise ValueError(
                f"efa_interfaces: found {self.efa_interfaces}; "
                f"{self.gpu_instance_type} takes 0 to {facts.efa_interfaces}; lower it or choose another type"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRelease:
    """One Helm release: which chart, from where, into which namespace, with which values."""

    chart: str
    version: str
    namespace: str
    values: Values

    @property
    def repository(self) -> str:
        """Return the upstream repository; a stack may take the chart from elsewhere."""
        return REPOSITORIES[self.chart]


def nvidia_device_plugin_values(spec: ChartSpec) -> Values:
    """Return the values that put the NVIDIA plugin on every GPU node and nowhere else."""
    values: Values = {
        # The node label stands in for Node Feature Discovery, whose labels the chart's default affinity asks for
        # otherwise. All of the chart's own terms are replaced, so the label of ours is the only way in.
        "affinity": _required_node_affinity(labels.GPU_PRESENT, "true"),
        # Terms of an affinity are alternatives; a selector holds besides. A CPU node that somebody labels
        # gpu.present stays free.
        "nodeSelector": {labels.ROLE: "gpu"},
        # The list replaces the chart's. CriticalAddonsOnly is kept for clusters that taint their first nodes so.
        "tolerations": [_exists("CriticalAddonsOnly"), _gpu_toleration()],
        # Feature discovery would bring a second DaemonSet and its CRDs for labels that the node group sets already.
        "gfd": {"enabled": False},
        # The chart asks for nothing, which would leave these pods out of the scheduler's sums. No limit: the
        # plugin's need grows with the number of devices.
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
    }
    return values | _image(spec.nvidia_image_repository)


def efa_device_plugin_values(spec: ChartSpec) -> Values:
    """Return the values that put the EFA plugin on every node with an EFA interface and nowhere else.

    Raises ValueError without EFA interfaces: on a node that has none the plugin ends with "No valid EFA devices found"
    again and again, so that stack installs no release.
    """
    if spec.efa_interfaces == 0:
        raise ValueError(f"{EFA_CHART}: found 0 EFA interfaces on {spec.gpu_instance_type}; install no release of it")
    values: Values = {
        # The chart's allow-list is as old as the chart, and a type missing from it means no pods and no error.
        # Naming the one type that this stack runs makes the list right for every chart version, and narrow.
        "supportedInstanceLabels": {"keys": ["node.kubernetes.io/instance-type"], "values": [spec.gpu_instance_type]},
        # A type that can have EFA need not have it attached; the label says that it has.
        "nodeSelector": {labels.EFA: "true"},
        # The chart tolerates CriticalAddonsOnly and nothing else, so without this the GPU taint keeps it away.
        "tolerations": [_gpu_toleration()],
        # The chart's default, pinned: as another user the plugin cannot open /dev/infiniband and never starts.
        "securityContext": {
            "allowPrivilegeEscalation": True,
            "privileged": True,
            "runAsNonRoot": False,
            "runAsUser": 0,
        },
    }
    return values | _image(spec.efa_image_repository)


def kuberay_operator_values(spec: ChartSpec) -> Values:
    """Return the values that put the operator on a system node and let it see the Ray namespace alone."""
    image: Values = {"tag": f"v{versions.KUBERAY}"}
    if spec.kuberay_image_repository:
        image["repository"] = spec.kuberay_image_repository
    return {
        # Pinned beside the chart's version: a chart taken from the repository's main branch asks for `nightly`.
        "image": image,
        "nodeSelector": {labels.ROLE: "system"},
        # A Role in the Ray namespace in place of a ClusterRole that reads every Secret. The namespace must exist
        # before the release.
        "singleNamespaceInstall": True,
        "watchNamespace": [spec.ray_namespace],
        # While a node is replaced, two operators may run for a moment; the lease lets one act.
        "leaderElectionEnabled": True,
        # The chart's limit of 100m slows every reconcile; its request follows from the limit when none is given.
        "resources": {
            "requests": {"cpu": "100m", "memory": "512Mi"},
            "limits": {"cpu": "1", "memory": "512Mi"},
        },
    }


def releases(spec: ChartSpec) -> tuple[ChartRelease, ...]:
    """Return the releases of a stack, plugins first; without EFA interfaces there is none of the EFA plugin."""
    nvidia = ChartRelease(
        chart=NVIDIA_CHART,
        version=versions.NVIDIA_DEVICE_PLUGIN,
        namespace=PLUGIN_NAMESPACE,
        values=nvidia_device_plugin_values(spec),
    )
    kuberay = ChartRelease(
        chart=KUBERAY_CHART,
        version=versions.KUBERAY,
        namespace=OPERATOR_NAMESPACE,
        values=kuberay_operator_values(spec),
    )
    if spec.efa_interfaces == 0:
        return nvidia, kuberay
    efa = ChartRelease(
        chart=EFA_CHART,
        version=versions.EFA_DEVICE_PLUGIN,
        namespace=PLUGIN_NAMESPACE,
        values=efa_device_plugin_values(spec),
    )
    return nvidia, efa, kuberay


def _required_node_affinity(key: str, value: str) -> Json:
    term: Json = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def _exists(key: str) -> Json:
    return {"key": key, "operator": "Exists"}


def _gpu_toleration() -> Json:
    return {"key": labels.GPU_TAINT, "operator": "Equal", "value": labels.GPU_TAINT_VALUE, "effect": GPU_TAINT_EFFECT}


def _image(repository: str | None) -> Values:
    return {"image": {"repository": repository}} if repository else {}
