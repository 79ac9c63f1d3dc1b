"""Instance types, EFA interfaces and how GPU nodes are bought."""

from collections.abc import Iterator

from infra import placement
from infra.instances import INSTANCE_TYPES, InstanceType
from settings.fields import Settings
from settings.problems import Problem
from settings.rules.rule import reads


def gpu_type(settings: Settings) -> InstanceType | None:
    """Return the facts of the GPU nodes' type, or None for a type that cannot be one: one rule reports it, the others wait."""
    type_ = INSTANCE_TYPES.get(settings.gpu.gpu_instance_type)
    return type_ if type_ and type_.gpus else None


@reads("gpu_instance_type")
def gpu_type_known(settings: Settings) -> Iterator[Problem]:
    """The GPU type is in the table and has GPUs."""
    name = settings.gpu.gpu_instance_type
    if gpu_type(settings) is None:
        gpu_types = ", ".join(sorted(known.name for known in INSTANCE_TYPES.values() if known.gpus))
        yield Problem(
            key="gpuInstanceType",
            found=repr(name),
            allowed=gpu_types,
            fix="choose one, or add its facts to infra/instances/table.py",
        )


@reads("system_instance_type")
def system_type_known(settings: Settings) -> Iterator[Problem]:
    """The CPU type is in the table and has no GPU to pay for."""
    name = settings.cluster.system_instance_type
    if name not in INSTANCE_TYPES or INSTANCE_TYPES[name].gpus:
        cpu_types = ", ".join(sorted(known.name for known in INSTANCE_TYPES.values() if not known.gpus))
        yield Problem(
            key="systemInstanceType",
            found=repr(name),
            allowed=cpu_types,
            fix="choose one, or add its facts to infra/instances/table.py",
        )


@reads("efa", "efa_interfaces", "gpu_instance_type")
def efa_interfaces(settings: Settings) -> Iterator[Problem]:
    """A node has the EFA interfaces that are asked of it."""
    gpu = settings.gpu
    type_ = gpu_type(settings)
    if type_ is None:
        return
    most = type_.efa_interfaces
    if gpu.efa and not most:
        yield Problem(
            key="efa",
            found=f"true, with gpuInstanceType {gpu.gpu_instance_type}",
            allowed="false: the type has no EFA interface",
            fix="set efa to false, or choose a type with EFA such as g6.12xlarge",
        )
    elif gpu.efa and gpu.efa_interfaces > most:
        yield Problem(
            key="efaInterfaces",
            found=f"{gpu.efa_interfaces}, with gpuInstanceType {gpu.gpu_instance_type}",
            allowed=f"1 to {most}, or 0 for every one",
            fix="pulumi config set efaInterfaces 0",
        )
    if not gpu.efa and gpu.efa_interfaces:
        yield Problem(
            key="efaInterfaces",
            found=f"{gpu.efa_interfaces}, with efa false",
            allowed="0",
            fix="set efa to true, or remove efaInterfaces",
        )


@reads(
    "gpu_availability_zone",
    "gpu_instance_type",
    "efa",
    "purchase",
    "capacity_reservation_id",
    "placement_group",
    "placement_group_reason",
)
def purchase(settings: Settings) -> Iterator[Problem]:
    """Purchase, reservation and placement group agree."""
    if gpu_type(settings):
        yield from placement.refusals(settings.gpu)


RULES = (gpu_type_known, system_type_known, efa_interfaces, purchase)
