"""Instance facts, held against figures that others publish for the same types."""

from dataclasses import fields

import pytest

from infra.instances import (
    INSTANCE_TYPES,
    SOURCES,
    InstanceType,
    NetworkInterface,
    UnknownInstanceTypeError,
    allocatable,
    instance,
    interfaces,
)
from infra.instances.kubelet import cpu_reserved_millis
from infra.zones import supports_control_plane

# Allocatable CPU (millicores) and memory (MiB) as printed by https://karpenter.sh/docs/reference/instance-types/
# (2026-08).
PUBLISHED_ALLOCATABLE = {
    "m7i.xlarge": (3920, 14162),
    "m7i.2xlarge": (7910, 29317),
    "m7i.4xlarge": (15890, 57691),
    "g6.12xlarge": (47810, 178933),
    "g6.24xlarge": (95690, 355262),
    "g5.48xlarge": (191450, 723299),
    "g6e.24xlarge": (95690, 721682),
    "p4d.24xlarge": (95690, 1082712),
    "p5.48xlarge": (191450, 1938410),
    "p5en.48xlarge": (191450, 1937332),
    "p6-b300.48xlarge": (191450, 3877198),
}

GPU_TYPES = [facts for facts in INSTANCE_TYPES.values() if facts.gpus]


@pytest.mark.parametrize("name", PUBLISHED_ALLOCATABLE)
def test_allocatable_agrees_with_published_figures(name: str) -> None:
    cpu_millis, memory_mib = PUBLISHED_ALLOCATABLE[name]
    found = allocatable(instance(name))
    assert (found.cpu_millis, found.memory_mib) == (cpu_millis, pytest.approx(memory_mib, abs=1))


def test_allocatable_follows_max_pods() -> None:
    g6 = instance("g6.12xlarge")
    assert allocatable(g6, 110).memory_mib - allocatable(g6, 234).memory_mib == 11 * (234 - 110)
    with pytest.raises(ValueError, match="max_pods: found 0; at least 1"):
        allocatable(g6, 0)


def test_r39_a_head_of_four_cores_does_not_fit_the_sample_system_node() -> None:
    small, large = allocatable(instance("m7i.xlarge")), allocatable(instance("m7i.2xlarge"))
    assert small.cpu_millis < 4_000
    assert small.memory_mib < 16 * 1_024
    assert large.cpu_millis > 4_000
    assert large.memory_mib > 16 * 1_024


def test_a_worker_of_the_sample_fits_g6_12xlarge() -> None:
    node = allocatable(instance("g6.12xlarge"))
    assert node.cpu_millis >= 40_000
    assert node.memory_mib >= 160 * 1_024


def test_reserved_cpu_of_a_single_core() -> None:
    assert cpu_reserved_millis(1) == 60


@pytest.mark.parametrize(
    ("name", "eni", "managed"),
    [
        ("m7i.xlarge", 58, 58),
        ("m7i.4xlarge", 234, 110),
        ("g6.12xlarge", 234, 234),
        ("g6.24xlarge", 737, 250),
        ("p5.48xlarge", 100, 100),
    ],
)
def test_max_pods(name: str, eni: int, managed: int) -> None:
    assert (instance(name).eni_max_pods, instance(name).max_pods) == (eni, managed)


@pytest.mark.parametrize(
    ("name", "efa", "cards", "gpus"),
    [
        ("g5.xlarge", 0, 1, 1),
        ("g6.xlarge", 0, 1, 1),
        ("g6.12xlarge", 1, 1, 4),
        ("g6.48xlarge", 1, 1, 8),
        ("g6e.12xlarge", 1, 1, 4),
        ("g6e.24xlarge", 2, 2, 4),
        ("g6e.48xlarge", 4, 4, 8),
        ("p4de.24xlarge", 4, 4, 8),
        ("p5.48xlarge", 32, 32, 8),
        ("p5en.48xlarge", 16, 16, 8),
        ("p6-b200.48xlarge", 8, 8, 8),
        ("p6-b300.48xlarge", 16, 17, 8),
    ],
)
def test_efa_and_cards(name: str, efa: int, cards: int, gpus: int) -> None:
    facts = instance(name)
    assert (facts.efa_interfaces, facts.network_cards, facts.gpus) == (efa, cards, gpus)


def test_interfaces_of_one_card() -> None:
    assert interfaces(instance("g6.12xlarge"), 1) == [(0, 0, "efa")]
    assert interfaces(instance("g6.12xlarge"), 0) == [(0, 0, "interface")]


def test_interfaces_of_p5() -> None:
    assert interfaces(instance("p5.48xlarge"), 32) == [(0, 0, "efa"), *((card, 1, "efa-only") for card in range(1, 32))]


def test_interfaces_of_p6_keep_ena_on_the_primary() -> None:
    b200 = interfaces(instance("p6-b200.48xlarge"), 8)
    assert b200 == [(0, 0, "interface"), (0, 1, "efa-only"), *((card, 0, "efa-only") for card in range(1, 8))]
    b300 = interfaces(instance("p6-b300.48xlarge"), 16)
    assert b300 == [(0, 0, "interface"), *((card, 0, "efa-only") for card in range(1, 17))]


def test_fewer_interfaces_are_spread_over_the_gpus() -> None:
    assert [entry.network_card_index for entry in interfaces(instance("p5.48xlarge"), 8)] == list(range(0, 32, 4))


@pytest.mark.parametrize("facts", GPU_TYPES, ids=lambda facts: facts.name)
def test_every_layout_is_one_ec2_takes(facts: InstanceType) -> None:
    for efa in range(facts.efa_interfaces + 1):
        layout = interfaces(facts, efa)
        assert sum(entry.interface_type in ("efa", "efa-only") for entry in layout) == efa
        assert layout[0].network_card_index == layout[0].device_index == 0
        assert layout[0].interface_type != "efa-only"
        assert sum(entry.interface_type != "efa-only" for entry in layout) == 1
        assert len({(entry.network_card_index, entry.device_index) for entry in layout}) == len(layout)
        assert all(entry.network_card_index < facts.network_cards for entry in layout)
        efa_cards = [entry.network_card_index for entry in layout if entry.interface_type != "interface"]
        assert len(set(efa_cards)) == efa
        assert set(efa_cards) <= set(facts.efa_cards)


@pytest.mark.parametrize(("name", "efa"), [("g6.12xlarge", 2), ("g6.12xlarge", -1), ("p5en.48xlarge", 17)])
def test_r25_too_many_interfaces_are_refused(name: str, efa: int) -> None:
    with pytest.raises(ValueError, match=rf"EFA interfaces: found {efa}; {name} has \d+, so 0 to \d+ are allowed"):
        interfaces(instance(name), efa)


def test_a_type_without_efa_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"g6\.xlarge has 0, .*choose a type with EFA or 0"):
        interfaces(instance("g6.xlarge"), 1)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("g6.12xlarg", "g6.12xlarge"), ("p5n.48xlarge", "p5en.48xlarge"), ("g6e.4xlarge", "g6e.24xlarge")],
)
def test_unknown_type_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownInstanceTypeError) as caught:
        instance(name)
    message = str(caught.value)
    assert repr(name) in message
    assert nearest in message
    assert "\n" not in message


def test_an_unlike_name_is_refused_too() -> None:
    with pytest.raises(UnknownInstanceTypeError, match="found ''"):
        instance("")


def test_facts_that_hold_between_columns() -> None:
    for name, facts in INSTANCE_TYPES.items():
        assert facts.name == name
        assert (facts.gpu_model is None) == (facts.gpus == 0) == (facts.gpu_memory_gib == 0)
        assert len(facts.efa_cards) == facts.efa_interfaces <= facts.network_cards
        assert facts.gpudirect_rdma <= facts.rdma_read <= (facts.efa_interfaces > 0)
        assert (facts.nvme_disks == 0) == (facts.nvme_gb == 0)
        assert facts.efa_only == (facts.network_cards > 1)


def test_r34_which_types_take_rdma() -> None:
    assert not instance("g5.48xlarge").rdma_read
    assert instance("g6.12xlarge").rdma_read
    assert not instance("g6.12xlarge").gpudirect_rdma
    assert instance("p4d.24xlarge").gpudirect_rdma


def test_purchase_facts() -> None:
    assert not instance("g6.12xlarge").capacity_blocks
    assert all(instance(name).capacity_blocks for name in ("p4d.24xlarge", "p5.48xlarge", "p6-b200.48xlarge"))
    assert instance("g6.12xlarge").on_demand_quota.name == "Running On-Demand G and VT instances"
    assert instance("p5.48xlarge").on_demand_quota.name == "Running On-Demand P instances"
    assert instance("p6-b200.48xlarge").spot_quota is None


def test_local_disks() -> None:
    assert instance("g6.12xlarge").nvme_total_gb == 3760


def test_every_field_has_a_source() -> None:
    unsourced = {field.name for field in fields(InstanceType)} - set(SOURCES) - {"name"}
    assert not unsourced
    assert all(source.url.startswith("https://") and source.as_read for entry in SOURCES.values() for source in entry)


def test_interface_is_a_plain_tuple() -> None:
    card, device, kind = NetworkInterface(0, 0, "efa")
    assert (card, device, kind) == (0, 0, "efa")


def test_r11_zones_without_a_control_plane() -> None:
    assert not supports_control_plane("use1-az3")
    assert supports_control_plane("use2-az1")
