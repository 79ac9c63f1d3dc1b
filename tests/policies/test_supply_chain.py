import pytest

from policies.pack import RULES
from policies.values import UNKNOWN, Value
from tests.policies.good_stack import Said, found, good_stack, said

IMAGE = "spec.headGroupSpec.template.spec.containers.0.image"
REST = (
    "allowed: REPOSITORY@sha256:DIGEST; "
    "why: a tag can name another image tomorrow, on one node and not on the other; "
    "fix: pulumi config set image REPOSITORY@sha256:DIGEST, the digest as the registry gives it"
)


@pytest.mark.parametrize(
    ("image", "word"),
    [
        ("repo/ray:v1.1", '"repo/ray:v1.1"'),
        ("repo/ray", '"repo/ray"'),
        ("repo/ray@sha256:0123", '"repo/ray@sha256:0123"'),
        (None, "nothing"),
    ],
)
def test_an_image_without_a_digest_is_refused(image: Value, word: str) -> None:
    stack = good_stack()
    stack.edit("ray", IMAGE, image)
    message = f"found image {word} in RayCluster ray (spec.headGroupSpec.template.spec); {REST}"
    assert said(stack) == found("image-digest", "ray", message)


def test_one_image_in_two_places_is_one_finding() -> None:
    stack = good_stack()
    for path in (IMAGE, "spec.workerGroupSpecs.0.template.spec.containers.0.image"):
        stack.edit("ray", path, "a:1")
    places = "spec.headGroupSpec.template.spec, spec.workerGroupSpecs[0].template.spec"
    assert said(stack) == found("image-digest", "ray", f'found image "a:1" in RayCluster ray ({places}); {REST}')


@pytest.mark.parametrize("name", ["dev", "rehearsal"])
def test_a_tag_is_a_remark_in_trial_stacks(name: str) -> None:
    stack = good_stack(name=name)
    stack.edit("ray", IMAGE, "repo/ray:v1.1")
    assert [s.rule for s in said(stack)] == ["image-digest-trial"]
    assert [rule.advisory for rule in RULES if rule.id == "image-digest-trial"] == [True]


def test_only_remarks_are_advisory() -> None:
    assert {rule.id for rule in RULES if rule.advisory} == {"image-digest-trial"}


@pytest.mark.parametrize("path", [IMAGE, "spec.headGroupSpec.template.spec"])
def test_an_unknown_image_is_not_checked(path: str) -> None:
    stack = good_stack()
    stack.edit("ray", path, UNKNOWN)
    assert ("image-digest", "not-checked") in [(s.rule, s.level) for s in said(stack)]
    assert {s.level for s in said(stack)} == {"not-checked"}


@pytest.mark.parametrize(
    ("type_", "props", "path"),
    [
        ("core/v1:Pod", {"spec": {"initContainers": [{"image": "a:1"}]}}, "spec"),
        (
            "apps/v1:Deployment",
            {"spec": {"template": {"spec": {"containers": [{"image": "a:1"}]}}}},
            "spec.template.spec",
        ),
        (
            "batch/v1:CronJob",
            {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{"image": "a:1"}]}}}}}},
            "spec.jobTemplate.spec.template.spec",
        ),
        (
            "ray.io/v1:RayJob",
            {"spec": {"submitterPodTemplate": {"spec": {"containers": [{"image": "a:1"}]}}}},
            "spec.submitterPodTemplate.spec",
        ),
    ],
)
def test_images_are_found_wherever_pods_are_written(type_: str, props: dict[str, Value], path: str) -> None:
    stack = good_stack()
    stack.add("some", f"kubernetes:{type_}", props)
    message = f'found image "a:1" in {type_.rpartition(":")[2]} some ({path}); {REST}'
    assert said(stack) == [Said("image-digest", "violation", "some", message)]


def test_the_cluster_inside_a_ray_job_is_read_as_well() -> None:
    stack = good_stack()
    stack.add("job", "kubernetes:ray.io/v1:RayJob", {"spec": {"rayClusterSpec": stack.resources["ray"].props["spec"]}})
    assert said(stack) == []
    stack.edit("job", "spec.rayClusterSpec.headGroupSpec.template.spec.containers.0.image", "a:1")
    message = f'found image "a:1" in RayJob job (spec.rayClusterSpec.headGroupSpec.template.spec); {REST}'
    assert said(stack) == found("image-digest", "job", message)


def test_a_job_on_a_cluster_of_its_own_choice_has_no_pods() -> None:
    stack = good_stack()
    stack.add("job", "kubernetes:ray.io/v1:RayJob", {"spec": {"clusterSelector": {"ray.io/cluster": "ray"}}})
    assert said(stack) == []
