"""The table of cards, and the instances that carry them."""

import pytest

from infra.instances import INSTANCE_TYPES
from workloads.train.errors import TrainingError, UsageError
from workloads.train.plan.hardware import CARDS, card_of
from workloads.train.plan.instances import INSTANCES, instance, machine_of


@pytest.mark.parametrize(
    ("device_name", "card", "teraflops", "gigabytes_per_second"),
    [
        ("NVIDIA L4", "L4", 121, 300),
        ("NVIDIA A10G", "A10G", 70, 600),
        ("NVIDIA L40S", "L40S", 362.05, 864),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB", 312, 1555),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB", 312, 2039),
        ("NVIDIA H100 80GB HBM3", "H100", 989.4, 3350),
        ("NVIDIA H200", "H200", 989.4, 4800),
        ("NVIDIA B200", "B200", 2250, 8000),
    ],
)
def test_a_card_is_found_by_the_name_that_torch_says(
    device_name: str, card: str, teraflops: float, gigabytes_per_second: float
) -> None:
    found = card_of(device_name)
    assert found.name == card
    assert found.peak_flops == pytest.approx(teraflops * 1e12)
    assert found.memory_bandwidth == pytest.approx(gigabytes_per_second * 1e9)
    assert found.source.startswith("https://")


@pytest.mark.parametrize(
    "device_name",
    ["NVIDIA A10", "NVIDIA L40", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H200 NVL", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "Tesla T4", ""],
)  # fmt: skip
def test_a_card_without_a_row_is_an_error_that_names_it(device_name: str) -> None:
    with pytest.raises(TrainingError) as caught:
        card_of(device_name)
    line = str(caught.value)
    assert line.startswith(f"GPU: found {device_name!r}, which has no row")
    assert "NVIDIA L4" in line
    assert "\n" not in line


@pytest.mark.parametrize("name", INSTANCES)
def test_instances_are_those_of_the_cluster(name: str) -> None:
    ours, theirs = INSTANCES[name], INSTANCE_TYPES[name]
    assert ours.gpus == theirs.gpus
    assert ours.card.name.split()[0] == theirs.gpu_model
    assert ours.efa_gbps == theirs.network_gbps
    assert theirs.efa_interfaces > 0
    # The driver keeps up to 1 % of what is printed for itself.
    assert 0.99 * theirs.gpu_memory_gib < ours.card.memory_bytes / 2**30 < theirs.gpu_memory_gib + 1


def test_every_card_of_an_efa_instance_with_several_gpus_has_a_row() -> None:
    """What the cluster can be made of can be planned for, but for the card that has no datasheet row yet."""
    several = {kind.name for kind in INSTANCE_TYPES.values() if kind.gpus > 1 and kind.efa_interfaces}
    missing = {name for name in several if name not in INSTANCES}
    assert {INSTANCE_TYPES[name].gpu_model for name in missing} <= {"A10G", "L4", "B300"}
    assert {card.name.split()[0] for card in CARDS.values()} >= {
        INSTANCE_TYPES[name].gpu_model for name in several if INSTANCE_TYPES[name].gpu_model != "B300"
    }


def test_an_unknown_instance_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^--instance: found 'g6.12'; allowed: g5.12xlarge, "):
        instance("g6.12")


def test_each_number_of_a_machine_says_where_it_is_from() -> None:
    for name in INSTANCES:
        facts = {fact.name: fact for fact in machine_of(instance(name), 2).facts}
        assert {"GEMM rate", "in-node bandwidth", "cross-node bandwidth", "kernel efficiency"} <= set(facts)
        assert all(fact.source and fact.mark in ("measured", "datasheet", "assumed") for fact in facts.values())
        assert facts["cross-node bandwidth"].mark == "assumed"
