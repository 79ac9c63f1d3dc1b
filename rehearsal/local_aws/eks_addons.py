"""EKS add-ons: CreateAddon, DescribeAddon, ListAddons, UpdateAddon, DeleteAddon, DescribeAddonVersions."""

import json
from datetime import UTC, datetime

from moto.core.responses import ActionResult
from moto.eks.exceptions import InvalidParameterException, ResourceInUseException

from . import catalog
from .eks_base import EksAction, not_found, pick
from .store import Record

SETTINGS = ("addonVersion", "serviceAccountRoleArn", "configurationValues")


class EksAddons(EksAction):
    """Answer the add-on actions that moto lacks."""

    def create_addon(self) -> ActionResult:
        """Make an add-on; an unknown name or version, or configuration that is no JSON object, is refused."""
        name, _ = self.path_parts
        payload, cluster = self.payload, self.cluster(name)
        addon_name = payload["addonName"]
        if (name, addon_name) in self.store.addons:
            raise ResourceInUseException(clusterName=name, addonName=addon_name, message="Addon already exists.")
        versions = self._versions(addon_name, str(cluster.version))
        self._check(payload, versions, addon_name)
        now = datetime.now(UTC)
        record: Record = {
            "addonName": addon_name,
            "clusterName": name,
            "status": "ACTIVE",
            "addonVersion": versions[0],
            "health": {"issues": []},
            "addonArn": self.arn("addon", name, addon_name),
            "createdAt": now,
            "modifiedAt": now,
            "tags": payload.get("tags", {}),
            "podIdentityAssociations": [],
            **pick(payload, *SETTINGS),
        }
        self.store.addons[name, addon_name] = record
        return ActionResult({"addon": record})

    def describe_addon(self) -> ActionResult:
        """Describe one add-on."""
        return ActionResult({"addon": self._addon()})

    def list_addons(self) -> ActionResult:
        """List the names of a cluster's add-ons."""
        name, _ = self.path_parts
        self.cluster(name)
        return ActionResult({"addons": sorted(addon for cluster, addon in self.store.addons if cluster == name)})

    def update_addon(self) -> ActionResult:
        """Change an add-on's version, role or configuration."""
        record, payload = self._addon(), self.payload
        self._check(
            payload,
            self._versions(record["addonName"], str(self.cluster(record["clusterName"]).version)),
            record["addonName"],
        )
        record |= {**pick(payload, *SETTINGS), "modifiedAt": datetime.now(UTC)}
        return self.updated("AddonUpdate", pick(payload, *SETTINGS))

    def delete_addon(self) -> ActionResult:
        """Delete an add-on."""
        record = self._addon()
        del self.store.addons[record["clusterName"], record["addonName"]]
        return ActionResult({"addon": {**record, "status": "DELETING"}})

    def describe_addon_versions(self) -> ActionResult:
        """Describe what add-on versions there are for a Kubernetes version."""
        wanted, kubernetes = (
            self._get_param("addonName"),
            self._get_param("kubernetesVersion", catalog.DEFAULT_KUBERNETES_VERSION),
        )
        names = [wanted] if wanted else sorted(catalog.ADDON_VERSIONS)
        addons: list[Record] = []
        for name in names:
            versions = self._versions(name, kubernetes)
            addons.append(
                {
                    "addonName": name,
                    "type": "networking",
                    "addonVersions": [
                        {
                            "addonVersion": version,
                            "compatibilities": [
                                {
                                    "clusterVersion": kubernetes,
                                    "platformVersions": ["*"],
                                    "defaultVersion": version == versions[-1],
                                }
                            ],
                        }
                        for version in versions
                    ],
                }
            )
        return ActionResult({"addons": addons})

    def _addon(self) -> Record:
        name, rest = self.path_parts
        addon = rest.removesuffix("/update")
        self.cluster(name)
        if (name, addon) not in self.store.addons:
            raise not_found(f"No addon: {addon} found in cluster: {name}")
        return self.store.addons[name, addon]

    @staticmethod
    def _versions(name: str, kubernetes: str) -> tuple[str, ...]:
        try:
            return catalog.addon_versions(name, kubernetes)
        except LookupError as error:
            raise InvalidParameterException(addonName=name, message=str(error)) from error

    @staticmethod
    def _check(payload: Record, versions: tuple[str, ...], name: str) -> None:
        version = payload.get("addonVersion")
        if version is not None and version not in versions:
            raise InvalidParameterException(
                addonName=name,
                message=f"Addon version specified is not supported: {version}; supported: {', '.join(versions)}",
            )
        configuration = payload.get("configurationValues")
        if configuration:
            try:
                parsed = json.loads(configuration)
            except ValueError as error:
                raise InvalidParameterException(
                    addonName=name, message=f"ConfigurationValue is not valid JSON: {error}"
                ) from error
            if not isinstance(parsed, dict):
                raise InvalidParameterException(addonName=name, message="ConfigurationValue must be a JSON object")
