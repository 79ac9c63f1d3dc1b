"""Labels and taint of the nodes: the node groups set them, charts and pods select by them."""

from typing import Final

ROLE: Final = "efa-ray-train/role"
"""`system` or `gpu`."""
EFA: Final = "efa-ray-train/efa"
"""`true` on nodes with an EFA interface attached; a type that can have EFA need not have it."""
GPU_PRESENT: Final = "nvidia.com/gpu.present"
"""`true` on GPU nodes: NVIDIA's chart reaches no other while feature discovery is off."""
GPU_TAINT: Final = "nvidia.com/gpu"
GPU_TAINT_VALUE: Final = "true"
ZONE: Final = "topology.kubernetes.io/zone"
"""Set by EKS."""


def gpu_node(*, efa: bool) -> dict[str, str]:
    """Return the labels of a GPU node; `efa` says whether it has EFA interfaces attached."""
    return {ROLE: "gpu", GPU_PRESENT: "true", **({EFA: "true"} if efa else {})}


def system_node() -> dict[str, str]:
    """Return the labels of a CPU node."""
    return {ROLE: "system"}
