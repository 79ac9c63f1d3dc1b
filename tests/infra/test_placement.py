"""The one decision on zone, group and purchase."""

import dataclasses
from typing import Any

import pytest

from infra.placement import CAPACITY_BLOCK_REASON, EFA_OFF_REASON, decide
from settings import SettingsError
from settings.fields import GpuSettings

GPU = GpuSettings(gpu_availability_zone="us-east-2b")
RESERVED = {"purchase": "reservation", "capacity_reservation_id": "cr-0123456789abcdef0"}


def gpu(**changes: Any) -> GpuSettings:
    return dataclasses.replace(GPU, **changes)


@pytest.mark.parametrize(
    ("changes", "group", "name", "reason", "tag", "capacity"),
    [
        ({}, "create", "", "", "create", "ON_DEMAND"),
        ({"purchase": "spot"}, "create", "", "", "create", "SPOT"),
        ({"placement_group": "existing:a:b"}, "existing", "a:b", "", "existing/a:b", "ON_DEMAND"),
        ({"placement_group": "none", "placement_group_reason": "why"}, "none", "", "why", "none", "ON_DEMAND"),
        ({"placement_group": "none", "efa": False}, "none", "", EFA_OFF_REASON, "none", "ON_DEMAND"),
        ({**RESERVED, "placement_group": "existing:theirs"}, "existing", "theirs", "", "existing/theirs", "ON_DEMAND"),
        (
            {**RESERVED, "purchase": "capacityBlock", "placement_group": "none", "gpu_instance_type": "p5.48xlarge"},
            "none",
            "",
            CAPACITY_BLOCK_REASON,
            "none",
            "CAPACITY_BLOCK",
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value),
)
def test_decision(changes: dict[str, Any], group: str, name: str, reason: str, tag: str, capacity: str) -> None:
    found = decide(gpu(**changes))
    assert (found.group, found.group_name, found.reason, found.tag, found.capacity_type) == (
        group,
        name,
        reason,
        tag,
        capacity,
    )
    assert found.zone == "us-east-2b"
    assert found.reservation_id == changes.get("capacity_reservation_id", "")


def test_a_reservation_never_gets_a_group_of_ours() -> None:
    """EC2 answers InsufficientInstanceCapacity for a reservation whose group is another: it looks like no capacity and is none."""
    with pytest.raises(SettingsError) as refused:
        decide(gpu(**RESERVED))
    (problem,) = refused.value.problems
    assert problem.key == "placementGroup"
    assert "a reservation takes no instance of a placement group that it was not made in" in str(problem)
