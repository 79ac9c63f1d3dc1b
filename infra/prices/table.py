"""On-Demand list prices in USD by Region, each with its source; what no source states is absent, never estimated."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

HOURS_PER_MONTH: Final = 730
"""The length of a month in AWS's own estimates: 24 x 365 / 12."""

Part = Literal["eksControlPlane", "natGateway", "publicIpv4", "interfaceEndpoint", "gp3", "kmsKey", "fsxScratch2"]
"""What a stack is billed for besides instances, for as long as it stands."""


class PriceSource(NamedTuple):
    """Where a price was read, and the day it is known to have held."""

    url: str
    as_of: str
    """ISO date that the source states; for a source without a date, the day since which its prices are known."""


class UnitPrice(NamedTuple):
    """A list price as published: USD for one unit."""

    usd: float
    unit: str
    """hour, GiB-month or month."""
    source: PriceSource

    @property
    def usd_per_hour(self) -> float:
        """Spread a monthly price over the hours of a month."""
        return self.usd if self.unit == "hour" else self.usd / HOURS_PER_MONTH


PRICED_REGIONS: Final = (
    "us-east-1",
    "us-east-2",
    "us-west-2",
    "eu-central-1",
    "eu-west-1",
    "eu-north-1",
    "ap-northeast-1",
)

_ARCHIVE: Final = "https://github.com/yeo/ec2.shop/blob/74c9fd8ab5acfd9511cd6535f914d47071601ad2/data"
_KARPENTER: Final = PriceSource(
    "https://github.com/aws/karpenter-provider-aws/blob/1d927085dd81a9df9301e613f371dac5b4d16bfe"
    "/pkg/providers/pricing/zz_generated.pricing_aws.go",
    "2026-07-20",
)
# The catalog carries no date: it has the P prices that Karpenter's table showed first on this day, and its us-east-1
# prices of P types are still those of Karpenter's table of 2026-07-20.
_CATALOG: Final = PriceSource(
    "https://github.com/skypilot-org/skypilot-catalog/blob/00148f2af3672e2229b4f7bf8157d5a3f36e3c35"
    "/catalogs/v8/aws/vms.csv",
    "2025-06-23",
)


def _instance_source(region: str, instance_type: str) -> PriceSource:
    """Name the source of a cell of the table.

    Karpenter's table has us-east-1 alone. Elsewhere CPU and G types come from the file behind AWS's own On-Demand page,
    whose us-east-1 prices for them are still those of Karpenter's table; P types became cheaper after it was archived.
    """
    if region == "us-east-1":
        return _KARPENTER
    if instance_type.startswith("p"):
        return _CATALOG
    return PriceSource(f"{_ARCHIVE}/ec2/{region}-ondemand.json", "2025-04-04")


# fmt: off
INSTANCES: Final[Mapping[str, tuple[float | None, ...]]] = {
    # Linux, shared tenancy  us-east-1, us-east-2, us-west-2, eu-central-1, eu-west-1, eu-north-1, ap-northeast-1
    "m6i.2xlarge":      (    0.384,     0.384,     0.384,      0.46,     0.428,     0.408,     0.496),
    "m7a.2xlarge":      (  0.46368,   0.46368,   0.46368,   0.55544,    0.5168,   0.49264,   0.59892),
    "m7i.xlarge":       (   0.2016,    0.2016,    0.2016,    0.2415,    0.2247,    0.2142,    0.2604),
    "m7i.2xlarge":      (   0.4032,    0.4032,    0.4032,     0.483,    0.4494,    0.4284,    0.5208),
    "m7i.4xlarge":      (   0.8064,    0.8064,    0.8064,     0.966,    0.8988,    0.8568,    1.0416),
    "g5.xlarge":        (    1.006,     1.006,     1.006,     1.258,     1.123,     1.067,     1.459),
    "g5.8xlarge":       (    2.448,     2.448,     2.448,   3.06122,   2.73271,   2.59644,   3.55033),
    "g5.12xlarge":      (    5.672,     5.672,     5.672,   7.09282,   6.33167,   6.01593,   8.22609),
    "g5.16xlarge":      (    4.096,     4.096,     4.096,   5.12204,   4.57237,   4.34437,   5.94042),
    "g5.24xlarge":      (    8.144,     8.144,     8.144,  10.18405,   9.09117,   8.63782,  11.81123),
    "g5.48xlarge":      (   16.288,    16.288,    16.288,   20.3681,  18.18233,  17.27564,  23.62246),
    "g6.xlarge":        (   0.8048,    0.8048,    0.8048,    1.0064,      None,    0.8536,    1.1672),
    "g6.8xlarge":       (   2.0144,    2.0144,    2.0144,     2.519,      None,   2.13655,   2.92148),
    "g6.12xlarge":      (   4.6016,    4.6016,    4.6016,   5.75429,      None,   4.88062,   6.67369),
    "g6.16xlarge":      (   3.3968,    3.3968,    3.3968,   4.24769,      None,   3.60277,   4.92637),
    "g6.24xlarge":      (   6.6752,    6.6752,    6.6752,   8.34732,      None,   7.07996,   9.68103),
    "g6.48xlarge":      (  13.3504,   13.3504,   13.3504,  16.69464,      None,  14.15992,  19.36206),
    "g6e.xlarge":       (    1.861,     1.861,     1.861,     2.327,      None,     1.974,     2.699),
    "g6e.8xlarge":      (  4.52856,   4.52856,   4.52856,   5.66252,      None,   4.80353,   6.56775),
    "g6e.12xlarge":     ( 10.49264,  10.49264,  10.49264,  13.12002,      None,  11.12975,  15.21742),
    "g6e.16xlarge":     (  7.57719,   7.57719,   7.57719,   9.47454,      None,   8.03728,  10.98917),
    "g6e.24xlarge":     ( 15.06559,  15.06559,  15.06559,  18.83806,      None,  15.98037,  21.84956),
    "g6e.48xlarge":     ( 30.13118,  30.13118,  30.13118,  37.67612,      None,  31.96075,  43.69912),
    "p4d.24xlarge":     (21.957642,  21.95764,  21.95764,  27.43298,  23.71569,  23.71569,  30.09784),
    "p4de.24xlarge":    ( 27.44705,      None,  27.44705,  34.29122,      None,      None,   37.6223),
    "p5.48xlarge":      (    55.04,     55.04,     55.04,      None,      None,   58.8928,      68.8),
    "p5e.48xlarge":     (     None,      None,      None,      None,      None,      None,      None),
    "p5en.48xlarge":    (   63.296,    63.296,    63.296,      None,      None,  67.72672,     79.12),
    "p6-b200.48xlarge": ( 113.9328,  113.9328,  113.9328,      None,      None,      None,      None),
    "p6-b300.48xlarge": (  142.416,      None,   142.416,      None,      None,      None,      None),
}
# fmt: on

_IPV4: Final = PriceSource("https://aws.amazon.com/vpc/pricing/", "2026-09-17")
_EKS: Final = PriceSource("https://aws.amazon.com/eks/pricing/", "2026-09-28")
_KMS: Final = PriceSource("https://aws.amazon.com/kms/pricing/", "2026-03-14")
_GP3: Final = PriceSource(f"{_ARCHIVE}/ebs/ebs.json", "2024-07-18")


def _nat(as_of: str) -> PriceSource:
    return PriceSource("https://aws.amazon.com/vpc/pricing/", as_of)


def _endpoint(as_of: str) -> PriceSource:
    return PriceSource("https://aws.amazon.com/privatelink/pricing/", as_of)


# AWS's pages draw Regional prices with a script, so the days below are those on which the page's or the Price List's
# figure was published, read out or billed. Missing: NAT gateways in eu-central-1 and eu-north-1, endpoints in us-east-2
# and eu-north-1, and FSx for Lustre SCRATCH_2 everywhere (0.14 a GB-month is widely quoted, without a Region).
PARTS: Final[Mapping[Part, Mapping[str, UnitPrice]]] = MappingProxyType(
    {
        "eksControlPlane": {region: UnitPrice(0.10, "hour", _EKS) for region in PRICED_REGIONS},
        "publicIpv4": {region: UnitPrice(0.005, "hour", _IPV4) for region in PRICED_REGIONS},
        "kmsKey": {region: UnitPrice(1.0, "month", _KMS) for region in PRICED_REGIONS},
        "natGateway": {
            "us-east-1": UnitPrice(0.045, "hour", _nat("2026-08-01")),
            "us-east-2": UnitPrice(0.045, "hour", _nat("2026-09-20")),
            "us-west-2": UnitPrice(0.045, "hour", _nat("2026-01-01")),
            "eu-west-1": UnitPrice(0.048, "hour", _nat("2026-07-17")),
            "ap-northeast-1": UnitPrice(0.062, "hour", _nat("2026-09-25")),
        },
        "interfaceEndpoint": {
            "us-east-1": UnitPrice(0.010, "hour", _endpoint("2026-09-17")),
            "us-west-2": UnitPrice(0.010, "hour", _endpoint("2026-10-06")),
            "eu-central-1": UnitPrice(0.012, "hour", _endpoint("2026-09-22")),
            "eu-west-1": UnitPrice(0.011, "hour", _endpoint("2026-07-17")),
            "ap-northeast-1": UnitPrice(0.014, "hour", _endpoint("2026-09-25")),
        },
        "gp3": {
            region: UnitPrice(usd, "GiB-month", _GP3)
            for region, usd in zip(PRICED_REGIONS, (0.08, 0.08, 0.08, 0.0952, 0.088, 0.0836, 0.096), strict=True)
        },
        "fsxScratch2": {},
    }
)


def instance_price(region: str, instance_type: str) -> UnitPrice | None:
    """Return the On-Demand Linux price of an instance an hour, None where no source states one."""
    if region not in PRICED_REGIONS or instance_type not in INSTANCES:
        return None
    usd = INSTANCES[instance_type][PRICED_REGIONS.index(region)]
    return None if usd is None else UnitPrice(usd, "hour", _instance_source(region, instance_type))


def part_price(region: str, part: Part) -> UnitPrice | None:
    """Return the price of one unit of a part, None where no source states one for the Region."""
    return PARTS[part].get(region)
