"""Each rule: the shipped stacks pass, and one change at a time is refused in one line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from settings import Settings, SettingsError, parse
from settings.rules import RULES
from settings.schema import keys
from settings.warnings import warnings

ROOT = Path(__file__).parents[2]
GOOD: Mapping[str, object] = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())["config"]
RESERVATION = "cr-0123456789abcdef0"


def problems(changes: Mapping[str, object]) -> list[str]:
    config = {**GOOD, **{key if ":" in key else f"efa-ray-train:{key}": value for key, value in changes.items()}}
    with pytest.raises(SettingsError) as refused:
        parse(config, stack="dev")
    return [str(problem) for problem in refused.value.problems]


def accepted(changes: Mapping[str, object]) -> Settings:
    inside = {"efa-ray-train:apiPublicCidrs": ["1.1.1.0/24"]}
    config = {
        **GOOD,
        **inside,
        **{key if ":" in key else f"efa-ray-train:{key}": value for key, value in changes.items()},
    }
    return parse(config, stack="dev")


CASES: list[tuple[dict[str, object], str]] = [
    # types and unknown keys
    (
        {"gpuNodeCount": "two"},
        "gpuNodeCount: found 'two'; allowed: an integer; set it so, or remove it for the default 2",
    ),
    ({"gpuNodeCount": 0}, "gpuNodeCount: found 0; allowed: integer >= 1; set it so, or remove it for the default 2"),
    ({"efa": "perhaps"}, "efa: found 'perhaps'; allowed: true or false; set it so, or remove it for the default true"),
    ({"natGateways": "two"}, "natGateways: found 'two'; allowed: 'single' or 'perAvailabilityZone'; set it so,"),
    (
        {"apiPublicCidrs": "203.0.113.0/24"},
        "apiPublicCidrs: found '203.0.113.0/24'; allowed: a list of text; pulumi config set --path 'apiPublicCidrs[0]' VALUE",
    ),
    ({"workerEnvironment": ["A=1"]}, 'workerEnvironment: found ["A=1"]; allowed: a map of text to text;'),
    (
        {"gpuNodecount": 2},
        "gpuNodecount: found a key that does not exist; allowed: gpuNodeCount comes closest; rename it to gpuNodeCount",
    ),
    ({"runId": {"secure": "v1:x"}}, "runId: found a secret; allowed: plain text; no key holds a secret;"),
    (
        {"aws:region": ""},
        "aws:region: found nothing; allowed: an AWS Region, such as us-east-2; pulumi config set aws:region",
    ),
    # zones
    (
        {"gpuAvailabilityZone": "us-west-2b"},
        "gpuAvailabilityZone: found 'us-west-2b'; allowed: a zone of us-east-2, as us-east-2a; pulumi config set",
    ),
    (
        {"gpuAvailabilityZone": "us-east-2a,us-east-2b"},
        "gpuAvailabilityZone: found 'us-east-2a,us-east-2b'; allowed: one zone, as us-east-2b: EFA does not leave a zone; pulumi config set",
    ),
    (
        {"controlPlaneAvailabilityZones": ["us-east-2a"]},
        "controlPlaneAvailabilityZones: found us-east-2a; allowed: two or more different zones, since EKS asks for two;",
    ),
    (
        {"controlPlaneAvailabilityZones": ["us-east-2a", "us-east-2a"]},
        "controlPlaneAvailabilityZones: found us-east-2a, us-east-2a; allowed: two or more different zones",
    ),
    (
        {"controlPlaneAvailabilityZones": ["us-east-2a", "eu-west-1a"]},
        "controlPlaneAvailabilityZones: found eu-west-1a; allowed: zones of us-east-2;",
    ),
    # addresses
    ({"vpcCidr": "10.0.0.0/24"}, "vpcCidr: found '10.0.0.0/24'; allowed: a private IPv4 range of /16 to /20"),
    (
        {"vpcCidr": "10.0.0.1/16"},
        "vpcCidr: found '10.0.0.1/16'; allowed: a private IPv4 range of /16 to /20 without host bits",
    ),
    ({"vpcCidr": "8.8.0.0/16"}, "vpcCidr: found '8.8.0.0/16'; allowed: a private IPv4 range"),
    ({"serviceCidr": "172.20.0.0/8"}, "serviceCidr: found '172.20.0.0/8'; allowed: a private IPv4 range of /12 to /24"),
    (
        {"serviceCidr": "10.0.128.0/20"},
        "serviceCidr: found 10.0.128.0/20, which overlaps vpcCidr 10.0.0.0/16; allowed: a range outside the VPC's;",
    ),
    (
        {"gpuNodeCount": 200, "vpcCidr": "10.0.0.0/20"},
        "gpuNodeCount: found 200, with a GPU subnet 10.0.9.0/24; allowed: up to 7 nodes at 32 addresses each;",
    ),
    # access to the API
    ({"apiPublicCidrs": []}, "apiPublicCidrs: found nothing; allowed: the IPv4 ranges that you call the API from"),
    (
        {"apiPublicCidrs": ["0.0.0.0/0"]},
        "apiPublicCidrs: found '0.0.0.0/0'; allowed: public IPv4 ranges of /8 or smaller",
    ),
    ({"apiPublicCidrs": ["10.0.0.0/8"]}, "apiPublicCidrs: found '10.0.0.0/8'; allowed: public IPv4 ranges"),
    ({"apiPublicCidrs": ["everyone"]}, "apiPublicCidrs: found 'everyone'; allowed: public IPv4 ranges"),
    (
        {"apiAccess": "insideVpc"},
        "apiPublicCidrs: found 203.0.113.0/24; allowed: nothing, since apiAccess is insideVpc;",
    ),
    (
        {"apiAccess": "public"},
        "apiAccess: found 'public'; allowed: 'publicCidrs' or 'insideVpc'; pulumi config set apiAccess",
    ),
    # instance types and EFA
    ({"gpuInstanceType": "g6.13xlarge"}, "gpuInstanceType: found 'g6.13xlarge'; allowed: g5.12xlarge,"),
    ({"gpuInstanceType": "m7i.2xlarge"}, "gpuInstanceType: found 'm7i.2xlarge'; allowed: g5.12xlarge,"),
    ({"systemInstanceType": "g6.12xlarge"}, "systemInstanceType: found 'g6.12xlarge'; allowed: m6i.2xlarge,"),
    (
        {"efaInterfaces": 2},
        "efaInterfaces: found 2, with gpuInstanceType g6.12xlarge; allowed: 1 to 1, or 0 for every one;",
    ),
    ({"efa": False, "efaInterfaces": 1}, "efaInterfaces: found 1, with efa false; allowed: 0;"),
    (
        {"gpuInstanceType": "g6.xlarge", "workerCpu": 2, "workerMemoryGib": 8},
        "efa: found true, with gpuInstanceType g6.xlarge; allowed: false: the type has no EFA interface;",
    ),
    # purchase, reservation and placement group
    (
        {"purchase": "reservation", "placementGroup": "none", "placementGroupReason": "made without"},
        "capacityReservationId: found nothing;",
    ),
    (
        {"capacityReservationId": RESERVATION},
        f"capacityReservationId: found {RESERVATION}, with purchase onDemand; allowed: a reservation only",
    ),
    ({"capacityReservationId": "cr-x"}, "capacityReservationId: found 'cr-x'; allowed: cr- and 8 to 17 hex digits;"),
    (
        {"purchase": "reservation", "capacityReservationId": RESERVATION},
        "placementGroup: found create, with purchase reservation; allowed: existing:NAME or none: a reservation takes no instance of",
    ),
    (
        {"purchase": "capacityBlock", "capacityReservationId": RESERVATION, "placementGroup": "none"},
        "purchase: found capacityBlock, with gpuInstanceType g6.12xlarge; allowed: onDemand, spot or reservation:",
    ),
    (
        {
            "purchase": "capacityBlock",
            "capacityReservationId": RESERVATION,
            "gpuInstanceType": "p5.48xlarge",
        },
        "placementGroup: found create, with purchase capacityBlock; allowed: none: a Capacity Block places its instances itself;",
    ),
    (
        {"placementGroup": "none"},
        "placementGroupReason: found nothing, with placementGroup none; allowed: why EFA nodes go without",
    ),
    (
        {"placementGroupReason": "no"},
        "placementGroupReason: found a reason, with placementGroup create; allowed: a reason only with",
    ),
    ({"placementGroup": "existing"}, "placementGroup: found 'existing'; allowed: create, none or existing:NAME;"),
    # head and workers
    ({"workerGpus": 5}, "workerGpus: found 5, with gpuInstanceType g6.12xlarge; allowed: 1 to 4, or 0 for every one;"),
    (
        {"workerRayStartParams": {"num-gpus": "2"}},
        "workerRayStartParams: found num-gpus '2'; allowed: '4', what the worker requests: Ray would schedule on GPUs",
    ),
    (
        {"workerCpu": 48},
        "workerCpu: found 48, on g6.12xlarge; allowed: up to 47 CPUs, what the kubelet leaves less the pods beside it;",
    ),
    (
        {"workerMemoryGib": 192},
        "workerMemoryGib: found 192, on g6.12xlarge; allowed: up to 174 GiB, what the kubelet leaves",
    ),
    (
        {"systemInstanceType": "m7i.xlarge", "headMemoryGib": 8},
        "headCpu: found 4, on m7i.xlarge; allowed: up to 2 CPUs, what the kubelet leaves",
    ),
    (
        {"workerEnvironment": {"FI_PROVIDER": "tcp"}},
        "workerEnvironment: found FI_PROVIDER=tcp, with efa true; allowed: nothing that sends NCCL over TCP;",
    ),
    (
        {"workerEnvironment": {"A B": "1"}},
        "workerEnvironment: found name 'A B'; allowed: letters, digits and _, not a digit first;",
    ),
    ({"image": "ray:latest"}, "image: found 'ray:latest'; allowed: REGISTRY/REPOSITORY@sha256:<64 hex digits>"),
    (
        {"image": "public.ecr.aws/x/ray@sha256:12"},
        "image: found 'public.ecr.aws/x/ray@sha256:12'; allowed: REGISTRY/REPOSITORY@sha256:",
    ),
    ({"clusterAdmins": ["me"]}, "clusterAdmins: found 'me'; allowed: arn:aws:iam::ACCOUNT:role/NAME or .../user/NAME;"),
    ({"addonVersions": {"vpc_cni": "v1"}}, "addonVersions: found 'vpc_cni'; allowed: vpc-cni, kube-proxy,"),
    # storage and charts
    *(
        (
            {"storagePath": path},
            f"storagePath: found {path!r}; allowed: empty for the stack's bucket, s3://BUCKET/PREFIX or /fsx/PATH:",
        )
        for path in ("/tmp/x", "~/ray_results", "/mnt/local", "s3://", "s3:/bucket/x", "file:///data")
    ),
    (
        {"storagePath": "/fsx/runs"},
        "storagePath: found '/fsx/runs', with fsxCapacityGib 0; allowed: a path under /fsx only with",
    ),
    ({"fsxCapacityGib": 1000}, "fsxCapacityGib: found 1000; allowed: 0, 1200 or a multiple of 2400;"),
    (
        {"chartSource": "charts"},
        "chartSource: found 'charts'; allowed: upstream, a directory (/..., ./...) or oci://REGISTRY/PREFIX;",
    ),
    ({"namespace": "Ray_Train"}, "namespace: found 'Ray_Train'; allowed: a Kubernetes name: a-z, 0-9 and -, up to 63;"),
]


@pytest.mark.parametrize(
    ("changes", "said"), CASES, ids=[f"{index}-{next(iter(case[0]))}" for index, case in enumerate(CASES)]
)
def test_one_wrong_value_is_one_line(changes: Mapping[str, object], said: str) -> None:
    found = problems(changes)
    assert len(found) == 1, found
    assert found[0].startswith(said), found[0]
    assert "\n" not in found[0]
    assert found[0].count("; ") >= 2, "found, allowed and what to do"


def test_every_rule_has_a_case() -> None:
    """A rule whose refusal no case provokes is not tested."""
    silent = set(range(len(RULES)))
    for changes, _ in CASES:
        config = {**GOOD, **{key if ":" in key else f"efa-ray-train:{key}": value for key, value in changes.items()}}
        for index, rule in enumerate(RULES):
            kept = tuple(item for item in RULES if item is rule)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("settings.read.RULES", kept)
                try:
                    parse(config, stack="dev")
                except SettingsError as error:
                    if not any(
                        problem.found in ("nothing",) and problem.key == "aws:region" for problem in error.problems
                    ):
                        silent.discard(index)
    assert not silent


def test_wrong_values_are_reported_together_in_the_order_of_the_keys() -> None:
    found = problems(
        {"vpcCidr": "10.0.0.0/24", "gpuNodeCount": "two", "gpuAvailabilityZone": "us-west-2b", "imgae": "x"}
    )
    assert [line.partition(":")[0] for line in found] == ["imgae", "vpcCidr", "gpuAvailabilityZone", "gpuNodeCount"]


def test_a_rule_on_a_broken_value_stays_silent() -> None:
    assert [
        line.partition(":")[0] for line in problems({"gpuAvailabilityZone": "nowhere", "vpcCidr": "10.0.0.0/24"})
    ] == [
        "vpcCidr",
        "gpuAvailabilityZone",
    ]


def test_missing_required_keys_are_all_named() -> None:
    with pytest.raises(SettingsError) as refused:
        parse({}, stack="dev")
    assert {problem.key for problem in refused.value.problems} == {
        "aws:region",
        *(key.name for key in keys().values() if key.required),
    }


@pytest.mark.parametrize("stack", ["dev", "us-west-2", "rehearsal"])
def test_shipped_stacks_are_good(stack: str) -> None:
    config: Mapping[str, object] = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text())["config"]
    assert parse(config, stack=stack).region in ("us-east-2", "us-west-2")


@pytest.mark.parametrize(
    "changes",
    [
        {"gpuAvailabilityZone": "us-east-2c"},
        {"gpuInstanceType": "p5.48xlarge", "gpuNodeCount": 4},
        {"purchase": "reservation", "capacityReservationId": RESERVATION, "placementGroup": "existing:theirs"},
        {
            "purchase": "reservation",
            "capacityReservationId": RESERVATION,
            "placementGroup": "none",
            "placementGroupReason": "targeted ODCR made without a group",
        },
        {
            "purchase": "capacityBlock",
            "capacityReservationId": RESERVATION,
            "placementGroup": "none",
            "gpuInstanceType": "p5.48xlarge",
        },
        {"purchase": "spot"},
        {"efa": False},
        {"efa": False, "gpuInstanceType": "g6.xlarge", "workerCpu": 2, "workerMemoryGib": 8},
        {"storagePath": "s3://bucket/runs/a"},
        {"storagePath": "/fsx/runs", "fsxCapacityGib": 1200},
        {"workerRayStartParams": {"num-gpus": "4", "object-store-memory": "1000000000"}},
        {"workerGpus": 2},
        {"runId": 5},
        {"apiPublicCidrs": '["198.51.100.0/24"]'},
        {"chartSource": "oci://registry.example/charts"},
    ],
    ids=str,
)
def test_good_variants_are_accepted(changes: Mapping[str, object]) -> None:
    accepted(changes)


def test_text_from_the_engine_and_values_from_the_file_give_the_same_settings() -> None:
    as_text: dict[str, Any] = {
        "gpuNodeCount": "3",
        "efa": "false",
        "workerEnvironment": '{"A": "1"}',
        "clusterLogTypes": '["api"]',
    }
    as_values = {"gpuNodeCount": 3, "efa": False, "workerEnvironment": {"A": "1"}, "clusterLogTypes": ["api"]}
    assert accepted(as_text) == accepted(as_values)


def test_a_range_for_documentation_warns() -> None:
    (warning,) = warnings(parse(GOOD, stack="dev"))
    assert warning.startswith("apiPublicCidrs: 203.0.113.0/24 is a range for documentation, so nobody reaches the API;")


def test_fi_efa_use_device_rdma_warns_where_the_device_cannot() -> None:
    environment = {"workerEnvironment": {"FI_EFA_USE_DEVICE_RDMA": "1"}}
    g5 = {"gpuInstanceType": "g5.12xlarge"}
    (warning,) = warnings(accepted({**environment, **g5}))
    assert warning.startswith(
        "workerEnvironment: FI_EFA_USE_DEVICE_RDMA is set, but g5.12xlarge has an EFA device without RDMA read"
    )
    assert not list(warnings(accepted({**environment, "gpuInstanceType": "p5.48xlarge"})))


def test_no_placement_group_warns_and_says_the_reason() -> None:
    (warning,) = warnings(accepted({"placementGroup": "none", "placementGroupReason": "made without"}))
    assert warning.endswith("the reason recorded: made without")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.check.__name__)
def test_a_rule_reads_only_what_it_declares(rule: Any) -> None:
    """A rule runs as soon as the keys that it declares are good: one that reads another would crash on a half-wrong stack."""
    from settings.read import _assemble  # pyright: ignore[reportPrivateUsage]

    settings = accepted(
        {"purchase": "reservation", "capacityReservationId": RESERVATION, "placementGroup": "existing:theirs"}
    )
    values = {key.field: getattr(getattr(settings, key.group), key.field) for key in keys().values()}
    kept = {field: value for field, value in {**values, "region": "us-east-2"}.items() if field in rule.reads}
    assert list(rule.check(_assemble("dev", kept))) == []
