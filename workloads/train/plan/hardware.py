"""The cards that this program knows, with the rate that model FLOPs utilisation is counted against.

A datasheet prints the rate of tensor cores with 2:4 sparsity, or both; training multiplies dense matrices, so the dense one, half of it,
stands here. A card without a row is an error: a fallback would print a utilisation of another card.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ..errors import TrainingError

_MIB: Final = 2**20
_DATASHEETS: Final = "https://www.nvidia.com/en-us/data-center"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One kind of GPU."""

    name: str
    peak_flops: float
    """Dense bf16 FLOP/s with fp32 accumulation."""
    memory_bytes: int
    """What the driver shows, a little under the printed size."""
    memory_bandwidth: float
    """Bytes/s."""
    source: str
    """Where rate and bandwidth are printed."""


# fmt: off
_ROWS: Final = (
    #     name,           dense bf16, memory,         bandwidth, source
    Card(name="L4",        peak_flops=121e12, memory_bytes=23_034 * _MIB, memory_bandwidth=300e9, source=f"{_DATASHEETS}/l4/"),
    # Not the A10, which has 125: AWS's own variant.
    Card(name="A10G",      peak_flops=70e12, memory_bytes=23_028 * _MIB, memory_bandwidth=600e9,
         source="https://d1.awsstatic.com/product-marketing/ec2/NVIDIA_AWS_A10G_DataSheet_FINAL_02_17_2022.pdf"),
    Card(name="L40S",      peak_flops=362.05e12, memory_bytes=46_068 * _MIB, memory_bandwidth=864e9, source=f"{_DATASHEETS}/l40s/"),
    Card(name="A100 40GB", peak_flops=312e12, memory_bytes=40_960 * _MIB, memory_bandwidth=1_555e9, source=f"{_DATASHEETS}/a100/"),
    Card(name="A100 80GB", peak_flops=312e12, memory_bytes=81_920 * _MIB, memory_bandwidth=2_039e9, source=f"{_DATASHEETS}/a100/"),
    Card(name="H100",      peak_flops=989.4e12, memory_bytes=81_559 * _MIB, memory_bandwidth=3_350e9, source=f"{_DATASHEETS}/h100/"),
    Card(name="H200",      peak_flops=989.4e12, memory_bytes=143_771 * _MIB, memory_bandwidth=4_800e9, source=f"{_DATASHEETS}/h200/"),
    Card(name="B200",      peak_flops=2_250e12, memory_bytes=183_359 * _MIB, memory_bandwidth=8_000e9, source=f"{_DATASHEETS}/hgx/"),
)
# fmt: on

CARDS: Final[Mapping[str, Card]] = MappingProxyType({card.name: card for card in _ROWS})
"""Every known card by its name here."""

_DEVICE_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "NVIDIA L4": "L4",
        "NVIDIA A10G": "A10G",
        "NVIDIA L40S": "L40S",
        "NVIDIA A100-SXM4-40GB": "A100 40GB",
        "A100-SXM4-40GB": "A100 40GB",
        "NVIDIA A100-SXM4-80GB": "A100 80GB",
        "A100-SXM4-80GB": "A100 80GB",
        "NVIDIA H100 80GB HBM3": "H100",
        "NVIDIA H200": "H200",
        "NVIDIA B200": "B200",
    }
)
"""Whole names, as torch says them: the PCIe and NVL variants and the slices of a card are slower, and share the beginning."""


def card_of(device_name: str) -> Card:
    """Return the card that `torch.cuda.get_device_name()` names, such as 'NVIDIA L4' or 'NVIDIA H100 80GB HBM3'.

    Raises:
        TrainingError: the table has no such card.
    """
    name = _DEVICE_NAMES.get(device_name.strip())
    if name is None:
        raise TrainingError(
            f"GPU: found {device_name!r}, which has no row in plan/hardware.py; allowed: {', '.join(_DEVICE_NAMES)}; "
            "add a row with the dense bf16 peak of its datasheet, or take one of these"
        )
    return CARDS[name]
