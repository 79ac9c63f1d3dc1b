"""EC2 placement groups: CreatePlacementGroup, DescribePlacementGroups, DeletePlacementGroup."""

from collections.abc import Mapping

from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response
from moto.moto_api._internal import mock_random

from .store import Record, ec2_store, with_tags

STRATEGIES = ("cluster", "partition", "spread")


class PlacementGroups(EC2Response):
    """Answer the placement group actions that moto lacks."""

    def create_placement_group(self) -> ActionResult:
        """Make a placement group; a name that is taken is refused, as EC2 does."""
        name, strategy = self._get_param("GroupName"), self._get_param("Strategy", "cluster")
        groups = ec2_store(self.current_account, self.region).placement_groups
        if name in groups:
            raise EC2ClientError("InvalidPlacementGroup.Duplicate", f"The placement group '{name}' already exists.")
        if strategy not in STRATEGIES:
            raise EC2ClientError("InvalidParameterValue", f"Value ({strategy}) for parameter strategy is invalid.")
        group_id = f"pg-{mock_random.get_random_hex(17)}"
        groups[name] = {
            "GroupName": name,
            "GroupId": group_id,
            "State": "available",
            "Strategy": strategy,
            "GroupArn": f"arn:{self.partition}:ec2:{self.region}:{self.current_account}:placement-group/{name}",
        }
        if strategy == "partition":
            groups[name]["PartitionCount"] = int(self._get_param("PartitionCount", 2))
        if strategy == "spread":
            groups[name]["SpreadLevel"] = self._get_param("SpreadLevel", "rack")
        # Tags live in moto's own tag store, so that CreateTags and DescribeTags know placement groups too.
        self.ec2_backend.create_tags([group_id], self._parse_tag_specification().get("placement-group", {}))
        return ActionResult({"PlacementGroup": with_tags(self.ec2_backend, groups[name], groups[name]["GroupId"])})

    def describe_placement_groups(self) -> ActionResult:
        """Describe placement groups by name, id or filter."""
        groups = ec2_store(self.current_account, self.region).placement_groups
        names, ids = self._get_param("GroupNames", []), self._get_param("GroupIds", [])
        for name in names:
            if name not in groups:
                raise EC2ClientError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
        filters = self._filters_from_querystring()
        found = [
            with_tags(self.ec2_backend, group, group["GroupId"])
            for group in groups.values()
            if (not names or group["GroupName"] in names) and (not ids or group["GroupId"] in ids)
        ]
        return ActionResult({"PlacementGroups": [group for group in found if _matches(group, filters)]})

    def delete_placement_group(self) -> EmptyResult:
        """Delete a placement group; one that holds instances is refused."""
        name, store = self._get_param("GroupName"), ec2_store(self.current_account, self.region)
        if name not in store.placement_groups:
            raise EC2ClientError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
        if any(
            instance.placement.group_name == name and instance.state not in ("terminated", "shutting-down")
            for instance in self.ec2_backend.all_instances()
        ):
            raise EC2ClientError(
                "InvalidPlacementGroup.InUse", f"The placement group '{name}' is in use and may not be deleted."
            )
        group = store.placement_groups.pop(name)
        store.placement_zones.pop(name, None)
        self.ec2_backend.tags.pop(group["GroupId"], None)
        return EmptyResult()


def _matches(group: Record, filters: Mapping[str, str]) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in group["Tags"]}
    values = {
        "group-name": group["GroupName"],
        "strategy": group["Strategy"],
        "state": group["State"],
        **{f"tag:{key}": value for key, value in tags.items()},
    }
    return all(str(values.get(name)) in wanted for name, wanted in filters.items())
