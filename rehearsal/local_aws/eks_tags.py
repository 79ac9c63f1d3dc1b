"""Tags of the EKS resources that moto does not have."""

from urllib.parse import unquote

from moto.core.responses import ActionResult, EmptyResult

from .eks_base import EksAction
from .store import Record

ARN_MEMBERS = ("addonArn", "accessEntryArn", "associationArn")


class EksTags(EksAction):
    """Tag what the additions made; clusters and node groups are moto's."""

    def tag_resource(self) -> ActionResult:
        """Set tags."""
        record = self._added()
        if record is None:
            return super().tag_resource()
        record["tags"] = {**record["tags"], **self.payload["tags"]}
        return EmptyResult()

    def untag_resource(self) -> ActionResult:
        """Take tags away."""
        record = self._added()
        if record is None:
            return super().untag_resource()
        removed = self.querystring.get("tagKeys", [])
        record["tags"] = {key: value for key, value in record["tags"].items() if key not in removed}
        return EmptyResult()

    def list_tags_for_resource(self) -> ActionResult:
        """List tags."""
        record = self._added()
        return super().list_tags_for_resource() if record is None else ActionResult({"tags": record["tags"]})

    def _added(self) -> Record | None:
        arn = unquote(self.parsed_url.path).partition("/tags/")[2]
        records = [*self.store.addons.values(), *self.store.access_entries.values(), *self.store.pod_identities.values()]
        return next((record for record in records if arn in [record.get(member) for member in ARN_MEMBERS]), None)
