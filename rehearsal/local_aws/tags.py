"""Tags of what moto does not have: CreateTags and DeleteTags refuse the ids of placement groups and capacity reservations."""

from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.responses import EC2Response

from .store import ec2_store


class TagsOfAdded(EC2Response):
    """Tag what the additions made; everything else is moto's."""

    def create_tags(self) -> ActionResult:
        """Tag resources; ids of both kinds may stand in one request."""
        added, others = self._split()
        tags = {tag["Key"]: tag["Value"] for tag in self._get_param("Tags", [])}
        if added:
            self.ec2_backend.create_tags(added, tags)
        if not others:
            return EmptyResult()
        self.params["Resources"] = others
        return super().create_tags()

    def delete_tags(self) -> ActionResult:
        """Take tags away."""
        added, others = self._split()
        tags = {tag["Key"]: tag.get("Value") for tag in self._get_param("Tags", [])}
        if added:
            self.ec2_backend.delete_tags(added, tags)
        if not others:
            return EmptyResult()
        self.params["Resources"] = others
        return super().delete_tags()

    def _split(self) -> tuple[list[str], list[str]]:
        store = ec2_store(self.current_account, self.region)
        known = {group["GroupId"] for group in store.placement_groups.values()} | set(store.reservations)
        ids: list[str] = self._get_param("Resources", [])
        return [found for found in ids if found in known], [found for found in ids if found not in known]
