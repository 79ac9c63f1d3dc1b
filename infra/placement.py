"""Where the GPU nodes stand and how they are bought: decided once, here, or refused with the reason.

Everything that depends on zone, placement group or purchase (launch template, node group, workers, tags, policies) reads the `Placement`
that `decide` returns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from infra.instances import InstanceType, instance
from settings.fields import GpuSettings
from settings.problems import Problem, SettingsError

CAPACITY_BLOCK_REASON = "a Capacity Block places its instances itself"
EFA_OFF_REASON = "EFA is off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One decision for zone, placement group and purchase.

    `group` is how the placement group comes about and `group_name` the name of an existing one. `reason` says why there is none. An
    empty `reservation_id` stands for capacity that is not reserved.
    """

    zone: str
    group: Literal["create", "existing", "none"]
    group_name: str
    reason: str
    capacity_type: Literal["ON_DEMAND", "SPOT", "CAPACITY_BLOCK"]
    reservation_id: str

    @property
    def tag(self) -> str:
        """Return the decision on the group as one tag value: `create`, `existing/NAME` or `none`."""
        return f"existing/{self.group_name}" if self.group == "existing" else self.group


def decide(gpu: GpuSettings) -> Placement:
    """Return the placement of the GPU nodes.

    Raises:
        SettingsError: the settings contradict each other; each problem says which and why.
    """
    problems = list(refusals(gpu))
    if problems:
        raise SettingsError(problems)
    group, _, name = gpu.placement_group.partition(":")
    reason = ""
    if group == "none":
        automatic = CAPACITY_BLOCK_REASON if gpu.purchase == "capacityBlock" else "" if gpu.efa else EFA_OFF_REASON
        reason = gpu.placement_group_reason or automatic
    return Placement(
        zone=gpu.gpu_availability_zone,
        group="existing" if name else "create" if group == "create" else "none",
        group_name=name,
        reason=reason,
        capacity_type={"spot": "SPOT", "capacityBlock": "CAPACITY_BLOCK"}.get(gpu.purchase, "ON_DEMAND"),  # pyright: ignore[reportArgumentType]
        reservation_id=gpu.capacity_reservation_id,
    )


def refusals(gpu: GpuSettings) -> Iterator[Problem]:
    """Yield what contradicts itself between purchase, reservation and placement group."""
    reserved = gpu.purchase in ("reservation", "capacityBlock")
    if reserved and not gpu.capacity_reservation_id:
        yield Problem(
            key="capacityReservationId",
            found="nothing",
            allowed=f"the reservation's id, since purchase is {gpu.purchase}",
            fix="pulumi config set capacityReservationId cr-...",
        )
    if gpu.capacity_reservation_id and not reserved:
        yield Problem(
            key="capacityReservationId",
            found=f"{gpu.capacity_reservation_id}, with purchase {gpu.purchase}",
            allowed="a reservation only with purchase reservation or capacityBlock",
            fix="set purchase to reservation, or remove the id: nodes would be billed beside an unused reservation",
        )
    if gpu.purchase == "reservation" and gpu.placement_group == "create":
        yield Problem(
            key="placementGroup",
            found="create, with purchase reservation",
            allowed="existing:NAME or none: a reservation takes no instance of a placement group that it was not made in",
            fix="name the group that the reservation was made in, or set none with placementGroupReason",
        )
    if gpu.purchase == "capacityBlock":
        yield from _capacity_block(gpu, instance(gpu.gpu_instance_type))
    if gpu.placement_group != "none" and gpu.placement_group_reason:
        yield Problem(
            key="placementGroupReason",
            found=f"a reason, with placementGroup {gpu.placement_group}",
            allowed="a reason only with placementGroup none",
            fix="remove it, or set placementGroup to none",
        )
    if gpu.efa and gpu.placement_group == "none" and not gpu.placement_group_reason and gpu.purchase != "capacityBlock":
        yield Problem(
            key="placementGroupReason",
            found="nothing, with placementGroup none",
            allowed="why EFA nodes go without a placement group",
            fix="pulumi config set placementGroupReason 'targeted ODCR made without a group', or set placementGroup to create",
        )


def _capacity_block(gpu: GpuSettings, type_: InstanceType) -> Iterator[Problem]:
    if not type_.capacity_blocks:
        yield Problem(
            key="purchase",
            found=f"capacityBlock, with gpuInstanceType {type_.name}",
            allowed="onDemand, spot or reservation: Capacity Blocks exist for P and Trn families",
            fix="choose another purchase, or a P instance type",
        )
    if gpu.placement_group != "none":
        yield Problem(
            key="placementGroup",
            found=f"{gpu.placement_group}, with purchase capacityBlock",
            allowed="none: " + CAPACITY_BLOCK_REASON,
            fix="pulumi config set placementGroup none",
        )
