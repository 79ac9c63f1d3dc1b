"""Facts about EC2 instance types, and what follows from them: interfaces, pods per node, allocatable CPU and memory.

Every number is data in `table.py` with its source in `SOURCES`; nothing here calls AWS.
"""

from infra.instances.instance_type import InstanceType, InterfaceKind, Quota
from infra.instances.interfaces import NetworkInterface, interfaces
from infra.instances.kubelet import Allocatable, allocatable
from infra.instances.lookup import UnknownInstanceTypeError, instance
from infra.instances.table import INSTANCE_TYPES, SOURCES, Source

__all__ = [
    "INSTANCE_TYPES",
    "SOURCES",
    "Allocatable",
    "InstanceType",
    "InterfaceKind",
    "NetworkInterface",
    "Quota",
    "Source",
    "UnknownInstanceTypeError",
    "allocatable",
    "instance",
    "interfaces",
]
