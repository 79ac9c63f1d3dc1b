import pytest

from policies.values import UNKNOWN, Value
from tests.policies.good_stack import found, good_stack, said

REST = (
    "allowed: no dynamically made volume; "
    "why: a controller would make a volume that `pulumi destroy` does not know, and that bills on; "
    'fix: use emptyDir, the bucket, or a volume that the stack itself makes (volumeName and storageClassName "")'
)
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"storageClassName": "gp3"}, 'storage class "gp3"'),
        ({"storageClassName": "gp3", "volumeName": "mine"}, 'storage class "gp3"'),
        ({}, "the default storage class"),
        ({"storageClassName": ""}, 'storage class ""'),
    ],
)
def test_a_claim_on_a_dynamic_volume_is_refused(spec: Value, words: str) -> None:
    stack = good_stack()
    stack.add("claim", CLAIM, {"spec": spec})
    message = f"found a claim on {words} in PersistentVolumeClaim claim; {REST}"
    assert said(stack) == found("no-hidden-aws", "claim", message)


def test_a_claim_on_a_volume_of_the_stack_is_fine() -> None:
    stack = good_stack()
    stack.add("claim", CLAIM, {"spec": {"storageClassName": "", "volumeName": "lustre"}})
    stack.add("class", "kubernetes:storage.k8s.io/v1:StorageClass", {"provisioner": "kubernetes.io/no-provisioner"})
    assert said(stack) == []


def test_a_storage_class_that_makes_volumes_is_refused() -> None:
    stack = good_stack()
    stack.add("class", "kubernetes:storage.k8s.io/v1:StorageClass", {"provisioner": "ebs.csi.aws.com"})
    assert said(stack) == found(
        "no-hidden-aws", "class", f"found provisioner ebs.csi.aws.com in StorageClass class; {REST}"
    )


def test_claims_inside_other_resources_are_refused() -> None:
    stack = good_stack()
    stack.edit(
        "ray",
        "spec.headGroupSpec.template.spec.volumes",
        [{"name": "tmp", "emptyDir": {}}, {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
    )
    stack.add("set", "kubernetes:apps/v1:StatefulSet", {"spec": {"volumeClaimTemplates": [{"spec": {}}]}})
    stack.edit("operator", "values", {"prometheus": {"persistence": {"enabled": True}}})
    assert {(s.resource, s.message) for s in said(stack)} == {
        (
            "ray",
            "found a claim on the default storage class in an ephemeral volume in "
            f"spec.headGroupSpec.template.spec of RayCluster ray; {REST}",
        ),
        ("set", f"found a claim on the default storage class in volumeClaimTemplates of StatefulSet set; {REST}"),
        ("operator", f"found values.prometheus.persistence.enabled true in release operator; {REST}"),
    }


@pytest.mark.parametrize(
    ("type_", "props"),
    [
        (CLAIM, {"spec": {"storageClassName": UNKNOWN}}),
        (CLAIM, {"spec": UNKNOWN}),
        ("kubernetes:storage.k8s.io/v1:StorageClass", {"provisioner": UNKNOWN}),
    ],
)
def test_unknown_volumes_are_not_checked(type_: str, props: dict[str, Value]) -> None:
    stack = good_stack()
    stack.add("some", type_, props)
    assert [(s.rule, s.level, s.resource) for s in said(stack)] == [("no-hidden-aws", "not-checked", "some")]
