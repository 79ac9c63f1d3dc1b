"""Who may reach a cluster: access entries with their policies, and Pod Identity associations."""

from datetime import UTC, datetime

from moto.core.responses import ActionResult, EmptyResult
from moto.eks.exceptions import InvalidParameterException, InvalidRequestException, ResourceInUseException
from moto.moto_api._internal import mock_random

from .eks_base import EksAction, not_found, pick
from .store import Record

ENTRY_TYPES = ("STANDARD", "EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX")


class EksAccess(EksAction):
    """Answer the access entry and Pod Identity actions that moto lacks."""

    def create_access_entry(self) -> ActionResult:
        """Make an access entry; the cluster's authentication mode must know entries."""
        name, _ = self.path_parts
        payload = self.payload
        self._refuse_config_map_mode(name)
        if payload.get("type", "STANDARD") not in ENTRY_TYPES:
            raise InvalidParameterException(
                message=f"The type {payload['type']} is invalid; valid: {', '.join(ENTRY_TYPES)}"
            )
        return ActionResult({"accessEntry": self.add_entry(name, payload)})

    def add_entry(self, cluster: str, payload: Record) -> Record:
        """Keep an access entry; one principal has one entry per cluster."""
        principal = payload["principalArn"]
        if (cluster, principal) in self.store.access_entries:
            raise ResourceInUseException(
                clusterName=cluster, message="The specified access entry resource is already in use on this cluster."
            )
        now = datetime.now(UTC)
        record: Record = {
            "clusterName": cluster,
            "principalArn": principal,
            "kubernetesGroups": payload.get("kubernetesGroups", []),
            "accessEntryArn": self.arn("access-entry", cluster, "role", self.current_account, str(mock_random.uuid4())),
            "createdAt": now,
            "modifiedAt": now,
            "tags": payload.get("tags", {}),
            "username": payload.get("username", principal),
            "type": payload.get("type", "STANDARD"),
        }
        self.store.access_entries[cluster, principal] = record
        self.store.policies[cluster, principal] = []
        return record

    def describe_access_entry(self) -> ActionResult:
        """Describe the entry of one principal."""
        return ActionResult({"accessEntry": self._entry(*self.path_parts)})

    def list_access_entries(self) -> ActionResult:
        """List the principals that have an entry."""
        name, _ = self.path_parts
        self.cluster(name)
        return ActionResult(
            {"accessEntries": sorted(who for cluster, who in self.store.access_entries if cluster == name)}
        )

    def update_access_entry(self) -> ActionResult:
        """Change an entry's groups or user name."""
        entry = self._entry(*self.path_parts)
        entry |= {**pick(self.payload, "kubernetesGroups", "username"), "modifiedAt": datetime.now(UTC)}
        return ActionResult({"accessEntry": entry})

    def delete_access_entry(self) -> EmptyResult:
        """Delete an entry and what is associated with it."""
        entry = self._entry(*self.path_parts)
        key = entry["clusterName"], entry["principalArn"]
        del self.store.access_entries[key], self.store.policies[key]
        return EmptyResult()

    def associate_access_policy(self) -> ActionResult:
        """Associate an access policy with a principal's entry; associating it again changes its scope."""
        name, rest = self.path_parts
        principal, payload = rest.removesuffix("/access-policies"), self.payload
        entry = self._entry(name, principal)
        if entry["type"] != "STANDARD":
            raise InvalidRequestException(
                message=f"The access entry of type {entry['type']} can not have access policies; only STANDARD can."
            )
        if ":eks::aws:cluster-access-policy/" not in payload["policyArn"]:
            raise InvalidParameterException(
                message=f"The policyArn {payload['policyArn']} is not an EKS access policy."
            )
        now = datetime.now(UTC)
        associated = self.store.policies[name, principal]
        associated[:] = [policy for policy in associated if policy["policyArn"] != payload["policyArn"]]
        associated.append(
            {
                "policyArn": payload["policyArn"],
                "accessScope": payload["accessScope"],
                "associatedAt": now,
                "modifiedAt": now,
            }
        )
        return ActionResult({"clusterName": name, "principalArn": principal, "associatedAccessPolicy": associated[-1]})

    def list_associated_access_policies(self) -> ActionResult:
        """List the policies associated with a principal's entry."""
        name, rest = self.path_parts
        principal = rest.removesuffix("/access-policies")
        self._entry(name, principal)
        policies = self.store.policies[name, principal]
        return ActionResult({"clusterName": name, "principalArn": principal, "associatedAccessPolicies": policies})

    def disassociate_access_policy(self) -> EmptyResult:
        """Take a policy from a principal's entry."""
        name, rest = self.path_parts
        principal, _, policy_arn = rest.partition("/access-policies/")
        self._entry(name, principal)
        associated = self.store.policies[name, principal]
        if policy_arn not in [policy["policyArn"] for policy in associated]:
            raise not_found("The specified policyArn could not be found.")
        associated[:] = [policy for policy in associated if policy["policyArn"] != policy_arn]
        return EmptyResult()

    def create_pod_identity_association(self) -> ActionResult:
        """Give a service account of the cluster an IAM role; one association per service account."""
        name, _ = self.path_parts
        payload = self.payload
        self.cluster(name)
        taken = [(record["namespace"], record["serviceAccount"]) for record in self._associations(name)]
        if (payload["namespace"], payload["serviceAccount"]) in taken:
            raise ResourceInUseException(
                clusterName=name,
                message=f"Association already exists for service account {payload['namespace']}/{payload['serviceAccount']}",
            )
        now = datetime.now(UTC)
        association_id = f"a-{mock_random.get_random_hex(17)}"
        record: Record = {
            "clusterName": name,
            "associationArn": self.arn("podidentityassociation", name, association_id),
            "associationId": association_id,
            "tags": payload.get("tags", {}),
            "createdAt": now,
            "modifiedAt": now,
            **pick(payload, "namespace", "serviceAccount", "roleArn", "disableSessionTags", "targetRoleArn"),
        }
        self.store.pod_identities[name, association_id] = record
        return ActionResult({"association": record})

    def describe_pod_identity_association(self) -> ActionResult:
        """Describe one association."""
        return ActionResult({"association": self._association()})

    def list_pod_identity_associations(self) -> ActionResult:
        """List a cluster's associations."""
        name, _ = self.path_parts
        self.cluster(name)
        return ActionResult({"associations": self._associations(name)})

    def update_pod_identity_association(self) -> ActionResult:
        """Change an association's role."""
        record = self._association()
        record |= {
            **pick(self.payload, "roleArn", "disableSessionTags", "targetRoleArn"),
            "modifiedAt": datetime.now(UTC),
        }
        return ActionResult({"association": record})

    def delete_pod_identity_association(self) -> ActionResult:
        """Delete an association."""
        record = self._association()
        del self.store.pod_identities[record["clusterName"], record["associationId"]]
        return ActionResult({"association": record})

    def _refuse_config_map_mode(self, name: str) -> None:
        mode = vars(self.cluster(name)).get("access_config", {}).get("authenticationMode")
        if mode == "CONFIG_MAP":
            raise InvalidRequestException(
                message="The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation."
            )

    def _entry(self, cluster: str, principal: str) -> Record:
        self.cluster(cluster)
        if (cluster, principal) not in self.store.access_entries:
            raise not_found(f"The specified principalArn could not be found: {principal}.")
        return self.store.access_entries[cluster, principal]

    def _associations(self, cluster: str) -> list[Record]:
        return [record for (owner, _), record in self.store.pod_identities.items() if owner == cluster]

    def _association(self) -> Record:
        name, association_id = self.path_parts
        self.cluster(name)
        if (name, association_id) not in self.store.pod_identities:
            raise not_found(f"Association {association_id} could not be found.")
        return self.store.pod_identities[name, association_id]
