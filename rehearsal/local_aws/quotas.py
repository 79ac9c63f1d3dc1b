"""Service Quotas: ListServiceQuotas and GetServiceQuota for EC2; moto knows only the VPC's defaults."""

import json
from collections.abc import Mapping

from moto.core.responses import ActionResult
from moto.servicequotas.exceptions import NoSuchResource
from moto.servicequotas.responses import ServiceQuotasResponse

from . import catalog


class Quotas(ServiceQuotasResponse):
    """Answer with the account's quotas."""

    def list_service_quotas(self) -> ActionResult:
        """List the quotas of a service that the catalog knows."""
        service = json.loads(self.body).get("ServiceCode")
        found = [self._described(quota) for quota in catalog.EC2_QUOTAS if quota["ServiceCode"] == service]
        if not found:
            raise NoSuchResource
        return ActionResult({"Quotas": found})

    def get_service_quota(self) -> ActionResult | str:  # pyright: ignore[reportIncompatibleMethodOverride]  # moto takes both
        """Give one quota by its code."""
        payload = json.loads(self.body)
        for quota in catalog.EC2_QUOTAS:
            if (quota["ServiceCode"], quota["QuotaCode"]) == (payload.get("ServiceCode"), payload.get("QuotaCode")):
                return ActionResult({"Quota": self._described(quota)})
        return super().get_service_quota()

    def _described(self, quota: catalog.Quota) -> Mapping[str, object]:
        arn = f"arn:aws:servicequotas:{self.region}:{self.current_account}:{quota['ServiceCode']}/{quota['QuotaCode']}"
        return {
            **quota,
            "QuotaArn": arn,
            "ServiceName": "Amazon Elastic Compute Cloud",
            "Adjustable": True,
            "Unit": "None",
        }
