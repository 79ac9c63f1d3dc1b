"""Chart values as data: what they say, and that the charts take every key of them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import versions
from infra import labels
from infra.instances import INSTANCE_TYPES
from workloads.chart_values import (
    EFA_CHART,
    KUBERAY_CHART,
    NVIDIA_CHART,
    ChartSpec,
    efa_device_plugin_values,
    kuberay_operator_values,
    nvidia_device_plugin_values,
    releases,
)

CHARTS = Path(__file__).parents[2] / "rehearsal" / "charts"
SPEC = ChartSpec(gpu_instance_type="g6.12xlarge", efa_interfaces=1)


def schema_of(chart: str) -> dict[str, Any]:
    return json.loads((CHARTS / chart / "values.schema.json").read_text())


def every_spec() -> list[ChartSpec]:
    gpu_types = [facts for facts in INSTANCE_TYPES.values() if facts.gpus]
    return [
        ChartSpec(gpu_instance_type=facts.name, efa_interfaces=efa)
        for facts in gpu_types
        for efa in {0, facts.efa_interfaces}
    ]


def test_every_value_is_one_that_its_chart_knows() -> None:
    for spec in every_spec():
        for release in releases(spec):
            jsonschema.validate(release.values, schema_of(release.chart))


@pytest.mark.parametrize("chart", [NVIDIA_CHART, EFA_CHART, KUBERAY_CHART])
def test_a_misspelt_value_is_refused(chart: str) -> None:
    with pytest.raises(jsonschema.ValidationError, match="'tolerationz' was unexpected"):
        jsonschema.validate({"tolerationz": []}, schema_of(chart))


@pytest.mark.parametrize("chart", [NVIDIA_CHART, EFA_CHART, KUBERAY_CHART])
def test_defaults_and_schema_name_the_same_values(chart: str) -> None:
    defaults: Mapping[str, Any] = yaml.safe_load((CHARTS / chart / "values.yaml").read_text())
    schema = schema_of(chart)
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(defaults, schema)
    assert set(defaults) | {"global"} == set(schema["properties"])
    readme = (CHARTS / chart / "README.md").read_text()
    assert not [name for name in defaults if f"`{name}" not in readme]


@pytest.mark.parametrize(
    ("chart", "version"),
    [
        (NVIDIA_CHART, versions.NVIDIA_DEVICE_PLUGIN),
        (EFA_CHART, versions.EFA_DEVICE_PLUGIN),
        (KUBERAY_CHART, versions.KUBERAY),
    ],
)
def test_stand_ins_carry_the_pinned_versions(chart: str, version: str) -> None:
    metadata = yaml.safe_load((CHARTS / chart / "Chart.yaml").read_text())
    assert (metadata["name"], metadata["version"]) == (chart, version)
    assert version in {release.version for release in releases(SPEC)}


def test_r20_plugins_ask_for_labels_that_the_node_group_sets() -> None:
    node = labels.gpu_node(efa=True)
    for values in (nvidia_device_plugin_values(SPEC), efa_device_plugin_values(SPEC)):
        selector = values["nodeSelector"]
        assert isinstance(selector, dict)
        assert selector.items() <= node.items()


def test_r22_the_allow_list_is_the_type_in_use() -> None:
    spec = ChartSpec(gpu_instance_type="p5en.48xlarge", efa_interfaces=16)
    assert efa_device_plugin_values(spec)["supportedInstanceLabels"] == {
        "keys": ["node.kubernetes.io/instance-type"],
        "values": ["p5en.48xlarge"],
    }


def test_r22_a_type_nobody_knows_is_refused_before_deploy() -> None:
    with pytest.raises(ValueError, match=r"instance type: found 'g7\.12xlarge'"):
        ChartSpec(gpu_instance_type="g7.12xlarge", efa_interfaces=1)


def test_r24_without_efa_there_is_no_efa_release() -> None:
    spec = ChartSpec(gpu_instance_type="g6.12xlarge", efa_interfaces=0)
    assert [release.chart for release in releases(spec)] == [NVIDIA_CHART, KUBERAY_CHART]
    assert "efa-ray-train/efa" not in labels.gpu_node(efa=spec.efa_interfaces > 0)
    with pytest.raises(
        ValueError, match=r"aws-efa-k8s-device-plugin: found 0 EFA interfaces on g6\.12xlarge; install no release"
    ):
        efa_device_plugin_values(spec)


def test_r25_the_efa_plugin_runs_as_root() -> None:
    security = efa_device_plugin_values(SPEC)["securityContext"]
    assert isinstance(security, dict)
    assert security["runAsUser"] == 0
    assert security["runAsNonRoot"] is False


@pytest.mark.parametrize(
    ("name", "efa", "message"), [("g6.12xlarge", 2, "takes 0 to 1"), ("g6.xlarge", 1, "takes 0 to 0")]
)
def test_r25_more_interfaces_than_the_type_has(name: str, efa: int, message: str) -> None:
    with pytest.raises(ValueError, match=rf"efa_interfaces: found {efa}; {name} {message}"):
        ChartSpec(gpu_instance_type=name, efa_interfaces=efa)


def test_a_cpu_type_is_no_gpu_node() -> None:
    with pytest.raises(ValueError, match=r"gpu_instance_type: found m7i\.2xlarge, which has no GPU"):
        ChartSpec(gpu_instance_type="m7i.2xlarge", efa_interfaces=0)


def test_the_operator_sees_the_ray_namespace_alone() -> None:
    values = kuberay_operator_values(
        ChartSpec(gpu_instance_type="g6.12xlarge", efa_interfaces=1, ray_namespace="team-a")
    )
    assert values["watchNamespace"] == ["team-a"]
    assert values["singleNamespaceInstall"] is True
    assert values["nodeSelector"] == {"efa-ray-train/role": "system"}


def test_images_come_from_a_mirror_when_named() -> None:
    spec = ChartSpec(
        gpu_instance_type="g6.12xlarge",
        efa_interfaces=1,
        efa_image_repository="registry.example/efa",
        nvidia_image_repository="registry.example/nvidia",
        kuberay_image_repository="registry.example/operator",
    )
    images = [release.values["image"] for release in releases(spec)]
    assert images == [
        {"repository": "registry.example/nvidia"},
        {"repository": "registry.example/efa"},
        {"repository": "registry.example/operator", "tag": "v1.6.1"},
    ]
    assert "image" not in nvidia_device_plugin_values(SPEC)
    assert "image" not in efa_device_plugin_values(SPEC)


def test_releases_name_their_upstream_repositories() -> None:
    assert {release.chart: (release.repository, release.namespace) for release in releases(SPEC)} == {
        NVIDIA_CHART: ("https://nvidia.github.io/k8s-device-plugin", "kube-system"),
        EFA_CHART: ("https://aws.github.io/eks-charts", "kube-system"),
        KUBERAY_CHART: ("https://ray-project.github.io/kuberay-helm", "kuberay-system"),
    }
