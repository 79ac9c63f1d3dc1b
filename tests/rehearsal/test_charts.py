"""The stand-in charts, rendered with Helm and judged by the scheduler's rules."""

import copy
import json
import shutil
from pathlib import Path
from typing import cast

import pytest

from infra.instances import INSTANCE_TYPES
from infra.labels import GPU_PRESENT
from rehearsal import check_charts
from rehearsal.charts import CHARTS, SOURCES, assemble
from rehearsal.check_charts import Verdict, expected_nodes, judge, main, node_shapes
from rehearsal.documents import as_list, as_mapping
from rehearsal.errors import RehearsalError
from rehearsal.helm import find_helm, render
from rehearsal.scheduling import Manifest, Node
from workloads.chart_values import (
    EFA_CHART,
    KUBERAY_CHART,
    NVIDIA_CHART,
    ChartSpec,
    Values,
    releases,
)

SPEC = ChartSpec(gpu_instance_type="g6.12xlarge", efa_interfaces=1)


@pytest.fixture(scope="session")
def helm() -> Path:
    return find_helm()


def rendered(helm: Path, chart: str, values: Values, *, namespace: str = "kube-system") -> list[Manifest]:
    return render(helm, chart, namespace=namespace, values=values, source=SOURCES, version="any")


def own_values(chart: str, spec: ChartSpec = SPEC) -> Values:
    return copy.deepcopy(next(release.values for release in releases(spec) if release.chart == chart))


def verdict(
    helm: Path, chart: str, values: Values, spec: ChartSpec = SPEC, nodes: tuple[Node, ...] | None = None
) -> Verdict:
    shapes = nodes or node_shapes(spec, system_instance_type="m7i.xlarge")
    [only] = judge(chart, rendered(helm, chart, values), shapes, expected_nodes(chart, spec))
    return only


@pytest.mark.parametrize(
    ("name", "efa"), [("g6.12xlarge", 1), ("g5.48xlarge", 1), ("p5.48xlarge", 32), ("p6-b300.48xlarge", 16)]
)
def test_r17_r20_each_chart_reaches_its_nodes_and_no_others(helm: Path, name: str, efa: int) -> None:
    spec = ChartSpec(gpu_instance_type=name, efa_interfaces=efa)
    found = check_charts.check(helm, spec, system_instance_type="m7i.xlarge", charts=SOURCES)
    assert [(entry.chart, entry.reaches, entry.good) for entry in found] == [
        (NVIDIA_CHART, ("gpu", "gpu-without-efa"), True),
        (EFA_CHART, ("gpu",), True),
        (KUBERAY_CHART, ("system",), True),
    ]


def test_r17_without_the_gpu_label_the_plugin_wants_no_pods(helm: Path) -> None:
    bare = tuple(
        Node(
            name=node.name,
            labels={key: value for key, value in node.labels.items() if key != GPU_PRESENT},
            taints=node.taints,
        )
        for node in node_shapes(SPEC, system_instance_type="m7i.xlarge")
    )
    found = verdict(helm, NVIDIA_CHART, own_values(NVIDIA_CHART), nodes=bare)
    assert found.reaches == ()
    assert "misses gpu: no required affinity term matches (labels nvidia.com/gpu.present)" in found.text


def test_r20_a_plugin_without_a_selector_strays_to_a_labelled_cpu_node(helm: Path) -> None:
    values = own_values(NVIDIA_CHART)
    shapes = node_shapes(SPEC, system_instance_type="m7i.xlarge")
    mislabelled = (*shapes[:2], Node(name="system", labels=dict(shapes[2].labels) | {GPU_PRESENT: "true"}))
    assert verdict(helm, NVIDIA_CHART, values, nodes=mislabelled).good
    del values["nodeSelector"]
    assert verdict(helm, NVIDIA_CHART, values, nodes=mislabelled).text == "reaches system"


def test_r20_without_affinity_and_selector_the_plugin_is_everywhere(helm: Path) -> None:
    # Null takes a default out of a chart's values.
    open_to_all: Values = {"affinity": None, "nodeSelector": {}}
    assert verdict(helm, NVIDIA_CHART, own_values(NVIDIA_CHART) | open_to_all).text == "reaches system"


def test_r22_a_type_that_the_list_lacks_gets_no_plugin(helm: Path) -> None:
    values = own_values(EFA_CHART)
    values["supportedInstanceLabels"] = {"values": ["g5.48xlarge"]}
    assert "misses gpu: no required affinity term matches" in verdict(helm, EFA_CHART, values).text


@pytest.mark.parametrize("name", [name for name, facts in INSTANCE_TYPES.items() if facts.efa_interfaces])
def test_r22_the_default_list_of_the_chart_has_every_efa_type_of_ours(helm: Path, name: str) -> None:
    spec = ChartSpec(gpu_instance_type=name, efa_interfaces=1)
    values = own_values(EFA_CHART, spec)
    del values["supportedInstanceLabels"]
    assert verdict(helm, EFA_CHART, values, spec).good


def test_r23_a_tainted_node_needs_the_toleration(helm: Path) -> None:
    values = own_values(EFA_CHART) | {"tolerations": []}
    assert verdict(helm, EFA_CHART, values).text == "misses gpu: taint nvidia.com/gpu=true:NoSchedule is not tolerated"


def test_r24_a_node_without_efa_attached_is_left_alone(helm: Path) -> None:
    values = own_values(EFA_CHART)
    assert "gpu-without-efa" in verdict(helm, EFA_CHART, values).reasons
    del values["nodeSelector"]
    assert verdict(helm, EFA_CHART, values).text == "reaches gpu-without-efa"


def test_r25_the_efa_plugin_is_rendered_as_root(helm: Path) -> None:
    [daemon_set] = rendered(helm, EFA_CHART, own_values(EFA_CHART))
    pod = as_mapping(as_mapping(as_mapping(daemon_set["spec"])["template"])["spec"])
    [container] = as_list(pod["containers"])
    assert as_mapping(as_mapping(container)["securityContext"])["runAsUser"] == 0


def test_an_operator_without_a_selector_still_stays_off_gpu_nodes(helm: Path) -> None:
    values = own_values(KUBERAY_CHART)
    values["tolerations"] = [{"operator": "Exists"}]
    assert verdict(helm, KUBERAY_CHART, values).good
    del values["nodeSelector"]
    assert verdict(helm, KUBERAY_CHART, values).text == "reaches gpu; reaches gpu-without-efa"


def test_the_operator_gets_roles_in_the_watched_namespace_only(helm: Path) -> None:
    objects = rendered(helm, KUBERAY_CHART, own_values(KUBERAY_CHART), namespace="kuberay-system")
    scopes = {
        (as_mapping(entry["metadata"])["name"], as_mapping(entry["metadata"]).get("namespace"))
        for entry in objects
        if entry["kind"] == "Role"
    }
    assert scopes == {("kuberay-operator", "ray-train"), ("kuberay-operator-leader-election", "kuberay-system")}
    assert not [entry for entry in objects if entry["kind"] == "ClusterRole"]


def test_the_operator_arguments(helm: Path) -> None:
    objects = rendered(helm, KUBERAY_CHART, own_values(KUBERAY_CHART), namespace="kuberay-system")
    [deployment] = [entry for entry in objects if entry["kind"] == "Deployment"]
    pod = as_mapping(as_mapping(as_mapping(deployment["spec"])["template"])["spec"])
    container = as_mapping(as_list(pod["containers"])[0])
    arguments = as_list(container["args"])
    assert arguments[:2] == ["--watch-namespace", "ray-train"]
    assert "--enable-leader-election=true" in arguments
    assert container["image"] == "quay.io/kuberay/operator:v1.6.1"


@pytest.mark.parametrize(
    ("chart", "values", "word"),
    [
        (NVIDIA_CHART, {"tolerationz": []}, "tolerationz"),
        (NVIDIA_CHART, {"gfd": {"enabled": True}}, "gfd"),
        (EFA_CHART, {"supportedInstanceLabels": {"value": ["g6.12xlarge"]}}, "value"),
        (KUBERAY_CHART, {"watchNamespaces": ["ray-train"]}, "watchNamespaces"),
        (KUBERAY_CHART, {"service": {"type": "LoadBalancer"}}, "service"),
    ],
)
def test_a_value_that_is_not_honoured_fails(helm: Path, chart: str, values: Values, word: str) -> None:
    with pytest.raises(RehearsalError, match=rf"chart {chart} any from .*{word}"):
        rendered(helm, chart, values)


def test_assemble_brings_the_real_definitions(tmp_path: Path) -> None:
    crds = tmp_path / "crds"
    crds.mkdir()
    for name in ("ray.io_rayclusters.yaml", "ray.io_rayjobs.yaml", "ray.io_rayservices.yaml"):
        (crds / name).write_text(f"# {name}\n")
        (crds / name).chmod(0o444)
    assemble(tmp_path / "charts", crds)
    charts = assemble(tmp_path / "charts", crds)
    assert tuple(charts) == CHARTS
    assert sorted(path.name for path in (charts[KUBERAY_CHART] / "crds").iterdir()) == sorted(
        path.name for path in crds.iterdir()
    )
    assert all((chart / "Chart.yaml").is_file() and not (chart / "README.md").exists() for chart in charts.values())
    assert not (SOURCES / KUBERAY_CHART / "crds").exists()


def test_assemble_names_missing_definitions(tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match=r"lacks ray\.io_rayclusters\.yaml, ray\.io_rayjobs\.yaml"):
        assemble(tmp_path / "charts", tmp_path)
    assert not (tmp_path / "charts").exists()


def test_json_is_all_that_is_printed(helm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--stand-ins", "--json", "--helm", str(helm)]) == 0
    printed = capsys.readouterr()
    entries = cast(list[dict[str, object]], json.loads(printed.out))
    assert printed.err == ""
    assert [(entry["chart"], entry["good"], entry["verdict"]) for entry in entries] == [
        (chart, True, "ok") for chart in CHARTS
    ]


def test_a_table_for_people(helm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--stand-ins", "--helm", str(helm)]) == 0
    assert "nodes reached" in capsys.readouterr().out


def test_a_chart_that_misses_its_nodes_is_exit_code_1(
    helm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(SOURCES, tmp_path / "charts")
    template = tmp_path / "charts" / EFA_CHART / "templates" / "daemonset.yaml"
    template.write_text(template.read_text().replace("{{- with .Values.tolerations }}", "{{- with list }}"))
    assert main(["--charts", str(tmp_path / "charts"), "--json", "--helm", str(helm)]) == 1
    assert "misses gpu: taint nvidia.com/gpu=true:NoSchedule" in capsys.readouterr().out


def test_a_chart_that_renders_no_workload_is_exit_code_1(helm: Path) -> None:
    with pytest.raises(RehearsalError, match="rendered no DaemonSet or Deployment") as caught:
        judge(NVIDIA_CHART, rendered(helm, NVIDIA_CHART, {"devicePlugin": {"enabled": False}}), (), ())
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--instance-type", "g7.12xlarge"], "instance type: found 'g7.12xlarge'"),
        (["--instance-type", "m7i.2xlarge"], "which has no GPU"),
        (["--efa", "2"], "efa_interfaces: found 2; g6.12xlarge takes 0 to 1"),
        (["--charts", "/nonexistent"], "--charts: /nonexistent is no directory"),
        (["--stand-ins", "--helm", "/nonexistent"], "helm: /nonexistent is no program that can be run"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_a_source_without_the_chart(helm: Path, tmp_path: Path) -> None:
    with pytest.raises(
        RehearsalError, match=r"neither nvidia-device-plugin/ nor nvidia-device-plugin-0\.20\.0\.tgz in"
    ):
        render(helm, NVIDIA_CHART, namespace="kube-system", values={}, source=tmp_path, version="0.20.0")


def test_helm_is_asked_for_when_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("EFA_RAY_TRAIN_HELM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("EFA_RAY_TRAIN_CACHE", str(tmp_path / "cache"))
    with pytest.raises(
        RehearsalError, match=r"helm 3\.18\.6: no `helm` and no `go` on PATH; install Helm 3 .* or Go 1\.26"
    ):
        find_helm()
