"""Prices, held against figures that others publish and against what the table must never do: guess."""

from dataclasses import replace
from datetime import date

import pytest

from infra.instances import INSTANCE_TYPES
from infra.prices import (
    HOURS_PER_MONTH,
    PRICED_REGIONS,
    StackSize,
    UnitPrice,
    instance_price,
    part_price,
    price,
)
from infra.prices.table import INSTANCES, PARTS

BARE = StackSize(
    region="us-east-2",
    system_instance_type="m7i.xlarge",
    system_node_count=1,
    gpu_instance_type="g6.12xlarge",
    gpu_node_count=2,
    purchase="onDemand",
    nat_gateways=0,
    interface_endpoints=0,
    system_volume_gib=0,
    gpu_volume_gib=0,
    kms_keys=0,
    fsx_capacity_gib=0,
)
WHOLE = replace(BARE, nat_gateways=1, system_volume_gib=100, gpu_volume_gib=300, kms_keys=1)
GPU = "GPU nodes g6.12xlarge (onDemand)"


def by_name(size: StackSize) -> dict[str, float | None]:
    return {item.name: item.usd_per_hour for item in price(size).items}


def test_the_public_aws_sample_costs_about_9_50() -> None:
    found = price(BARE)
    assert found.usd_per_hour == 9.5048
    assert found.known_usd_per_hour == 9.5048
    assert found.not_priced == ()


def test_every_part_is_its_quantity_times_its_price() -> None:
    assert by_name(WHOLE) == {
        "EKS control plane": 0.10,
        "system nodes m7i.xlarge": 0.2016,
        GPU: 9.2032,
        "system node volumes, GiB of gp3": 0.0110,  # 100 x 0.08 / 730
        "GPU node volumes, GiB of gp3": 0.0658,  # 2 x 300 x 0.08 / 730
        "NAT gateways": 0.045,
        "public IPv4 addresses": 0.005,
        "KMS keys": 0.0014,  # 1 / 730
    }
    assert price(WHOLE).usd_per_hour == 9.633


def test_the_lines_add_up_to_the_total() -> None:
    found = price(replace(WHOLE, system_node_count=3, kms_keys=7, nat_gateways=3))
    assert found.usd_per_hour == pytest.approx(sum(item.usd_per_hour or 0 for item in found.items), abs=1e-9)
    assert found.usd_per_hour == round(found.known_usd_per_hour, 4)


def test_volumes_and_nodes_grow_with_the_node_counts() -> None:
    quantities = {
        item.name: item.quantity for item in price(replace(WHOLE, system_node_count=3, gpu_node_count=5)).items
    }
    assert quantities["system nodes m7i.xlarge"] == 3
    assert quantities[GPU] == 5
    assert quantities["system node volumes, GiB of gp3"] == 300
    assert quantities["GPU node volumes, GiB of gp3"] == 1500


def test_each_nat_gateway_has_a_public_address() -> None:
    found = by_name(replace(BARE, nat_gateways=3))
    assert (found["NAT gateways"], found["public IPv4 addresses"]) == (0.135, 0.015)


def test_endpoints_are_billed_by_endpoint_and_zone() -> None:
    assert by_name(replace(BARE, region="us-west-2", interface_endpoints=18))["interface endpoints, by zone"] == 0.18


def test_what_the_stack_has_none_of_has_no_line() -> None:
    assert [item.name for item in price(BARE).items] == ["EKS control plane", "system nodes m7i.xlarge", GPU]


@pytest.mark.parametrize("purchase", ["spot", "capacityBlock"])
def test_a_market_price_is_not_in_the_table(purchase: str) -> None:
    found = price(replace(BARE, purchase=purchase))
    assert found.usd_per_hour is None
    assert found.known_usd_per_hour == 0.3016
    assert found.not_priced == (f"GPU nodes g6.12xlarge ({purchase})",)
    (gpu,) = [item for item in found.items if item.usd_per_hour is None]
    assert (gpu.quantity, gpu.unit, gpu.unit_price, gpu.source) == (2, None, None, None)
    assert gpu.note == "market price, not in the table"


def test_a_reservation_costs_as_much_as_on_demand() -> None:
    assert price(replace(WHOLE, purchase="reservation")).usd_per_hour == price(WHOLE).usd_per_hour


def test_a_type_without_a_published_price_is_not_guessed() -> None:
    found = price(replace(BARE, gpu_instance_type="p5e.48xlarge", purchase="reservation"))
    assert found.usd_per_hour is None
    assert found.known_usd_per_hour == 0.3016
    assert found.not_priced == ("GPU nodes p5e.48xlarge (reservation)",)
    assert found.items[-1].note == "no On-Demand price in the table for p5e.48xlarge in us-east-2"


def test_a_type_that_a_region_lacks_has_no_price_there() -> None:
    assert instance_price("us-west-2", "p4de.24xlarge") is not None
    assert instance_price("us-east-2", "p4de.24xlarge") is None
    assert instance_price("us-east-2", "x99.large") is None


def test_a_region_outside_the_table_has_no_price_at_all() -> None:
    found = price(replace(WHOLE, region="cn-north-1"))
    assert found.usd_per_hour is None
    assert found.known_usd_per_hour == 0
    assert len(found.not_priced) == len(found.items)
    assert (found.as_of, found.source, found.sources) == ("", "", ())


def test_parts_that_no_source_prices_are_named() -> None:
    found = price(replace(BARE, interface_endpoints=12, fsx_capacity_gib=1200))
    assert found.not_priced == ("interface endpoints, by zone", "FSx for Lustre SCRATCH_2, GiB")
    assert found.usd_per_hour is None
    assert found.known_usd_per_hour == 9.5048
    assert found.items[-1].note == "no price in the table for us-east-2"


def test_the_date_is_that_of_the_oldest_source_and_each_source_stands_once() -> None:
    us_east_1 = price(replace(BARE, region="us-east-1"))
    assert us_east_1.as_of == "2026-07-20"
    assert us_east_1.source.split(", ")[1].endswith("/pkg/providers/pricing/zz_generated.pricing_aws.go")
    assert len(us_east_1.sources) == 2
    assert price(BARE).as_of == "2025-04-04"
    assert price(replace(BARE, gpu_instance_type="p5.48xlarge", system_node_count=0)).as_of == "2025-06-23"


@pytest.mark.parametrize(
    ("region", "instance_type", "usd"),
    [
        # Karpenter's generated table of 2026-07-20.
        ("us-east-1", "m7i.2xlarge", 0.4032),
        ("us-east-1", "g6e.48xlarge", 30.13118),
        ("us-east-1", "p4d.24xlarge", 21.957642),
        ("us-east-1", "p6-b300.48xlarge", 142.416),
        # https://github.com/dstackai/dstack/pull/4110, 2026-08-06: offers of p5en.48xlarge as that program reads them.
        ("us-east-2", "p5en.48xlarge", 63.296),
        ("us-west-2", "p5en.48xlarge", 63.296),
        ("eu-north-1", "p5en.48xlarge", 67.7267),
        # The file behind AWS's On-Demand page, 2025-04-04.
        ("eu-central-1", "g5.48xlarge", 20.3681),
        ("eu-west-1", "m7i.xlarge", 0.2247),
        ("ap-northeast-1", "g6.12xlarge", 6.67369),
    ],
)
def test_instance_prices_agree_with_published_figures(region: str, instance_type: str, usd: float) -> None:
    found = instance_price(region, instance_type)
    assert found is not None
    assert found.usd == pytest.approx(usd, abs=5e-5)


def test_every_known_instance_type_has_a_row_and_no_other_has() -> None:
    assert set(INSTANCES) == set(INSTANCE_TYPES)
    assert {len(row) for row in INSTANCES.values()} == {len(PRICED_REGIONS)}


def test_only_p5e_is_without_any_price() -> None:
    unpriced = {name for name, row in INSTANCES.items() if not any(row)}
    assert unpriced == {"p5e.48xlarge"}


@pytest.mark.parametrize("region", ["us-east-2", "us-west-2"])
def test_ohio_and_oregon_cost_what_virginia_costs(region: str) -> None:
    for instance_type in INSTANCE_TYPES:
        here, virginia = instance_price(region, instance_type), instance_price("us-east-1", instance_type)
        if here is not None and virginia is not None:
            assert here.usd == pytest.approx(virginia.usd, abs=5e-6), instance_type


def test_no_region_costs_1_6_times_another() -> None:
    for row in (row for row in INSTANCES.values() if any(row)):
        known = [usd for usd in row if usd is not None]
        assert max(known) < 1.6 * min(known)


def all_prices() -> list[UnitPrice]:
    instances = [instance_price(region, name) for region in PRICED_REGIONS for name in INSTANCE_TYPES]
    parts = [unit for by_region in PARTS.values() for unit in by_region.values()]
    return [unit for unit in (*instances, *parts) if unit is not None]


def test_every_price_has_a_source_a_past_date_and_a_unit() -> None:
    for unit in all_prices():
        assert unit.usd > 0
        assert unit.unit in ("hour", "GiB-month", "month")
        assert unit.source.url.startswith("https://")
        assert date.fromisoformat(unit.source.as_of) <= date(2026, 11, 30)


def test_parts_stand_only_in_regions_of_the_table() -> None:
    for by_region in PARTS.values():
        assert set(by_region) <= set(PRICED_REGIONS)


def test_a_monthly_price_is_spread_over_730_hours() -> None:
    key = part_price("us-east-1", "kmsKey")
    assert key is not None
    assert (key.usd, key.unit, HOURS_PER_MONTH) == (1.0, "month", 730)
    assert key.usd_per_hour == pytest.approx(0.00136986, abs=1e-8)


@pytest.mark.parametrize("key", ["system_node_count", "gpu_node_count", "nat_gateways", "kms_keys", "fsx_capacity_gib"])
def test_a_negative_size_is_refused_by_its_key(key: str) -> None:
    with pytest.raises(ValueError, match=f"^{key}: found -1; allowed 0 or more; count what the stack holds$"):
        replace(BARE, **{key: -1})
