"""The price of a standing stack an hour: a pure function of its size and the table."""

from dataclasses import dataclass
from typing import Literal

from infra.prices.table import Part, PriceSource, UnitPrice, instance_price, part_price

Purchase = Literal["onDemand", "spot", "reservation", "capacityBlock"]

_MARKET: tuple[Purchase, ...] = ("spot", "capacityBlock")
_MARKET_NOTE = "market price, not in the table"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSize:
    """Everything that is billed for as long as the stack stands. Raises ValueError for a negative count or size."""

    region: str
    system_instance_type: str
    system_node_count: int
    gpu_instance_type: str
    gpu_node_count: int
    purchase: Purchase
    """How GPU nodes are bought; system nodes are always On-Demand."""
    nat_gateways: int
    """Each has one public IPv4 address, which is billed beside it."""
    interface_endpoints: int
    """Endpoints times the zones that each stands in: AWS bills them by endpoint and zone."""
    system_volume_gib: int
    """Root volume (gp3) of one system node."""
    gpu_volume_gib: int
    """Root volume (gp3) of one GPU node."""
    kms_keys: int
    fsx_capacity_gib: int
    """Capacity of the SCRATCH_2 file system; 0 for none."""

    def __post_init__(self) -> None:
        for key in (
            "system_node_count",
            "gpu_node_count",
            "nat_gateways",
            "interface_endpoints",
            "system_volume_gib",
            "gpu_volume_gib",
            "kms_keys",
            "fsx_capacity_gib",
        ):
            found: int = getattr(self, key)
            if found < 0:
                raise ValueError(f"{key}: found {found}; allowed 0 or more; count what the stack holds")


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedItem:
    """One line of the bill."""

    name: str
    quantity: int
    unit: str | None
    """What one of the quantity is billed by, None without a price: hour, GiB-month or month."""
    unit_price: float | None
    """USD for one unit."""
    usd_per_hour: float | None
    """USD for the whole quantity, 4 decimals."""
    source: PriceSource | None
    note: str
    """Why there is no price; empty when there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HourlyPrice:
    """What a stack costs an hour in USD, before tax, discounts and whatever is billed by use.

    By use means data through NAT gateways and endpoints, traffic between zones and to the internet, S3, logs and KMS
    requests.
    """

    items: tuple[PricedItem, ...]

    @property
    def not_priced(self) -> tuple[str, ...]:
        """Name the items that no source prices."""
        return tuple(item.name for item in self.items if item.usd_per_hour is None)

    @property
    def known_usd_per_hour(self) -> float:
        """Add up the items that have a price; 4 decimals, the sum of the lines as shown."""
        return round(sum(item.usd_per_hour for item in self.items if item.usd_per_hour is not None), 4)

    @property
    def usd_per_hour(self) -> float | None:
        """Return the price of the whole stack, None as soon as one item has no price."""
        return None if self.not_priced else self.known_usd_per_hour

    @property
    def sources(self) -> tuple[PriceSource, ...]:
        """List the sources of the items, each once, in the order of the items."""
        return tuple(dict.fromkeys(item.source for item in self.items if item.source is not None))

    @property
    def source(self) -> str:
        """Return the addresses of the sources, comma-separated; empty when nothing has a price."""
        return ", ".join(dict.fromkeys(source.url for source in self.sources))

    @property
    def as_of(self) -> str:
        """Return the ISO date of the oldest source, empty when nothing has a price."""
        return min((source.as_of for source in self.sources), default="")


def price(size: StackSize) -> HourlyPrice:
    """Price a stack by the table: On-Demand list prices, with a reservation at the same price as On-Demand.

    Spot and Capacity Block prices follow the market and are not in the table, nor is a Region or type that no source
    prices: such an item has no price, and then neither has the whole. Items of which the stack has none are left out.
    """

    def part(name: str, key: Part, quantity: int) -> PricedItem:
        return _item(name, quantity, part_price(size.region, key), f"no price in the table for {size.region}")

    gpu_name = f"GPU nodes {size.gpu_instance_type} ({size.purchase})"
    items = (
        part("EKS control plane", "eksControlPlane", 1),
        _instances(
            f"system nodes {size.system_instance_type}", size.region, size.system_instance_type, size.system_node_count
        ),
        _item(gpu_name, size.gpu_node_count, None, _MARKET_NOTE)
        if size.purchase in _MARKET
        else _instances(gpu_name, size.region, size.gpu_instance_type, size.gpu_node_count),
        part("system node volumes, GiB of gp3", "gp3", size.system_node_count * size.system_volume_gib),
        part("GPU node volumes, GiB of gp3", "gp3", size.gpu_node_count * size.gpu_volume_gib),
        part("NAT gateways", "natGateway", size.nat_gateways),
        part("public IPv4 addresses", "publicIpv4", size.nat_gateways),
        part("interface endpoints, by zone", "interfaceEndpoint", size.interface_endpoints),
        part("KMS keys", "kmsKey", size.kms_keys),
        part("FSx for Lustre SCRATCH_2, GiB", "fsxScratch2", size.fsx_capacity_gib),
    )
    return HourlyPrice(items=tuple(item for item in items if item.quantity))


def _instances(name: str, region: str, instance_type: str, count: int) -> PricedItem:
    missing = f"no On-Demand price in the table for {instance_type} in {region}"
    return _item(name, count, instance_price(region, instance_type), missing)


def _item(name: str, quantity: int, unit_price: UnitPrice | None, missing: str) -> PricedItem:
    return PricedItem(
        name=name,
        quantity=quantity,
        unit=None if unit_price is None else unit_price.unit,
        unit_price=None if unit_price is None else unit_price.usd,
        usd_per_hour=None if unit_price is None else round(quantity * unit_price.usd_per_hour, 4),
        source=None if unit_price is None else unit_price.source,
        note=missing if unit_price is None else "",
    )
