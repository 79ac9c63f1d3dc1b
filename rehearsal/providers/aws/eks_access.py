"""EKS access entry, access policy association and Pod Identity association."""

from __future__ import annotations

from ..values import Properties, Props
from .kind import Call, Kind, void
from .tagging import retag_arn

ENTRY_TYPES = ("STANDARD", "EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX")


def _entry_key(call: Call) -> dict[str, object]:
    cluster, _, principal = call.id.partition(":")
    return {"clusterName": cluster, "principalArn": principal}


def _create_entry(call: Call) -> str:
    inputs = call.inputs
    cluster, principal = inputs.text("clusterName"), inputs.text("principalArn")
    call(
        "eks",
        "CreateAccessEntry",
        clusterName=cluster,
        principalArn=principal,
        kubernetesGroups=inputs.texts("kubernetesGroups") or None,
        type=inputs.text("type") or None,
        username=inputs.text("userName") or None,
        tags=call.tags() or None,
    )
    return f"{cluster}:{principal}"


def _read_entry(call: Call) -> Properties | None:
    found = call("eks", "DescribeAccessEntry", **_entry_key(call)).block("accessEntry")
    return {
        "accessEntryArn": found.text("accessEntryArn"),
        "clusterName": found.text("clusterName"),
        "principalArn": found.text("principalArn"),
        "createdAt": found.text("createdAt"),
        "modifiedAt": found.text("modifiedAt"),
        "kubernetesGroups": [*found.texts("kubernetesGroups")],
        "userName": found.text("username"),
        "type": found.text("type"),
        "tags": {**found.mapping("tags")} or None,
    }


def _update_entry(call: Call) -> None:
    if call.changed("kubernetesGroups", "userName"):
        call(
            "eks",
            "UpdateAccessEntry",
            **_entry_key(call),
            kubernetesGroups=call.inputs.texts("kubernetesGroups"),
            username=call.inputs.text("userName") or None,
        )
    retag_arn(call, "eks", call.state.text("accessEntryArn"))


def _entry_type(inputs: Props) -> list[tuple[str, str]]:
    found = inputs.text("type")
    if found and found not in ENTRY_TYPES:
        return [("type", f"type must be {', '.join(ENTRY_TYPES)}, found {found!r}")]
    return []


ACCESS_ENTRY = Kind(
    title="EKS Access Entry",
    create=_create_entry,
    read=_read_entry,
    update=_update_entry,
    delete=lambda call: void(call("eks", "DeleteAccessEntry", **_entry_key(call))),
    replace_on=("clusterName", "principalArn", "type"),
    sets=("kubernetesGroups",),
    defaults={"type": "STANDARD"},
    rules=(_entry_type,),
    gone=("ResourceNotFoundException",),
)


def _scope(inputs: Props) -> dict[str, object]:
    scope: dict[str, object] = {"type": inputs.text("accessScope.type")}
    if inputs.texts("accessScope.namespaces"):
        scope["namespaces"] = inputs.texts("accessScope.namespaces")
    return scope


def _create_policy(call: Call) -> str:
    inputs = call.inputs
    cluster, principal, policy = (inputs.text(name) for name in ("clusterName", "principalArn", "policyArn"))
    call(
        "eks",
        "AssociateAccessPolicy",
        clusterName=cluster,
        principalArn=principal,
        policyArn=policy,
        accessScope=_scope(inputs),
    )
    return f"{cluster}#{principal}#{policy}"


def _policy_key(call: Call) -> tuple[str, str, str]:
    cluster, principal, policy = call.id.split("#")
    return cluster, principal, policy


def _read_policy(call: Call) -> Properties | None:
    cluster, principal, policy = _policy_key(call)
    found = call("eks", "ListAssociatedAccessPolicies", clusterName=cluster, principalArn=principal)
    for association in found.blocks("associatedAccessPolicies"):
        if association.text("policyArn") == policy:
            return {
                "clusterName": cluster,
                "principalArn": principal,
                "policyArn": policy,
                "associatedAt": association.text("associatedAt"),
                "modifiedAt": association.text("modifiedAt"),
            }
    return None


def _delete_policy(call: Call) -> None:
    cluster, principal, policy = _policy_key(call)
    call("eks", "DisassociateAccessPolicy", clusterName=cluster, principalArn=principal, policyArn=policy)


def _scope_parts(inputs: Props) -> list[tuple[str, str]]:
    scope, namespaces = inputs.text("accessScope.type"), inputs.get("accessScope.namespaces")
    if scope and scope not in ("cluster", "namespace"):
        return [("accessScope.type", f"accessScope.type must be cluster or namespace, found {scope!r}")]
    if scope == "cluster" and namespaces:
        return [("accessScope.namespaces", "accessScope.namespaces is only for type namespace")]
    if scope == "namespace" and not namespaces:
        return [("accessScope.namespaces", "accessScope.namespaces is required for type namespace")]
    return []


ACCESS_POLICY_ASSOCIATION = Kind(
    title="EKS Access Policy Association",
    create=_create_policy,
    read=_read_policy,
    delete=_delete_policy,
    replace_on=("clusterName", "principalArn", "policyArn", "accessScope"),
    rules=(_scope_parts,),
    gone=("ResourceNotFoundException",),
)


def _create_pod_identity(call: Call) -> str:
    inputs = call.inputs
    made = call(
        "eks",
        "CreatePodIdentityAssociation",
        clusterName=inputs.text("clusterName"),
        namespace=inputs.text("namespace"),
        serviceAccount=inputs.text("serviceAccount"),
        roleArn=inputs.text("roleArn"),
        targetRoleArn=inputs.text("targetRoleArn") or None,
        disableSessionTags=inputs.flag("disableSessionTags") if "disableSessionTags" in inputs else None,
        tags=call.tags() or None,
    )
    return made.text("association.associationId")


def _pod_identity_key(call: Call) -> dict[str, object]:
    cluster = call.state.text("clusterName") or call.inputs.text("clusterName")
    return {"clusterName": cluster, "associationId": call.id}


def _read_pod_identity(call: Call) -> Properties | None:
    found = call("eks", "DescribePodIdentityAssociation", **_pod_identity_key(call)).block("association")
    return {
        "associationArn": found.text("associationArn"),
        "associationId": call.id,
        "clusterName": found.text("clusterName"),
        "namespace": found.text("namespace"),
        "serviceAccount": found.text("serviceAccount"),
        "roleArn": found.text("roleArn"),
        "disableSessionTags": found.flag("disableSessionTags"),
        "externalId": found.text("externalId"),
        "tags": {**found.mapping("tags")} or None,
    }


def _update_pod_identity(call: Call) -> None:
    if call.changed("roleArn", "disableSessionTags", "targetRoleArn"):
        call(
            "eks",
            "UpdatePodIdentityAssociation",
            **_pod_identity_key(call),
            roleArn=call.inputs.text("roleArn"),
            targetRoleArn=call.inputs.text("targetRoleArn") or None,
        )
    retag_arn(call, "eks", call.state.text("associationArn"))


POD_IDENTITY_ASSOCIATION = Kind(
    title="EKS Pod Identity Association",
    create=_create_pod_identity,
    read=_read_pod_identity,
    update=_update_pod_identity,
    delete=lambda call: void(call("eks", "DeletePodIdentityAssociation", **_pod_identity_key(call))),
    replace_on=("clusterName", "namespace", "serviceAccount"),
    gone=("ResourceNotFoundException",),
)
