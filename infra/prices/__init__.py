"""What the standing parts of a stack cost an hour, by a dated table of On-Demand prices.

Nothing here calls AWS, so a price is as old as its source: every price of `table.py` carries its address and its date.
"""

from infra.prices.hourly import HourlyPrice, PricedItem, StackSize, price
from infra.prices.table import HOURS_PER_MONTH, PRICED_REGIONS, Part, PriceSource, UnitPrice, instance_price, part_price

__all__ = [
    "HOURS_PER_MONTH",
    "PRICED_REGIONS",
    "HourlyPrice",
    "Part",
    "PriceSource",
    "PricedItem",
    "StackSize",
    "UnitPrice",
    "instance_price",
    "part_price",
    "price",
]
