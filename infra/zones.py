"""Availability Zones that EKS cannot put a control plane in."""

from typing import Final

CONTROL_PLANE_UNSUPPORTED_ZONE_IDS: Final = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
"""Zone ids: a zone's letter differs from account to account. Nodes may live there, the control plane may not.

Source: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html (2026-11; eksctl avoids the same three).
"""


def supports_control_plane(zone_id: str) -> bool:
    """Tell whether EKS places control-plane interfaces in the zone with this id, such as `use2-az1`."""
    return zone_id not in CONTROL_PLANE_UNSUPPORTED_ZONE_IDS
