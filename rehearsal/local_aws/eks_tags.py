"""Tags of the EKS resources that moto does not have or does not tag."""

from urllib.parse import unquote

from moto.core.responses import ActionResult, EmptyResult

from .eks_base import EksAction

ARN_MEMBERS = ("addonArn", "accessEntryArn", "associationArn")


class EksTags(EksAction):
    """Tag add-ons, access entries, Pod Identity associations and node groups; clusters are moto's."""

    def tag_resource(self) -> ActionResult:
        """Set tags."""
        tags = self._tags()
        if tags is None:
            return super().tag_resource()
        tags |= self.payload["tags"]
        return EmptyResult()

    def untag_resource(self) -> ActionResult:
        """Take tags away."""
        tags = self._tags()
        if tags is None:
            return super().untag_resource()
        for key in self.querystring.get("tagKeys", []):
            tags.pop(key, None)
        return EmptyResult()

    def list_tags_for_resource(self) -> ActionResult:
        """List tags."""
        tags = self._tags()
        return super().list_tags_for_resource() if tags is None else ActionResult({"tags": tags})

    def _tags(self) -> dict[str, str] | None:
        """Give the tags of the resource that the path names, to be changed in place; None when moto knows it."""
        arn = unquote(self.parsed_url.path).partition("/tags/")[2]
        for cluster in self.eks_backend.clusters.values():
            for group in cluster.nodegroups.values():
                if group.arn == arn:
                    return group.tags
        records = [
            *self.store.addons.values(),
            *self.store.access_entries.values(),
            *self.store.pod_identities.values(),
        ]
        for record in records:
            if arn in [record.get(member) for member in ARN_MEMBERS]:
                return record["tags"]
        return None
