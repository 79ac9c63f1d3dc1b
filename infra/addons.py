"""An EKS add-on at a version that is named or looked up, never whatever comes."""

import json
from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

import versions
from infra.tags import Tagger


def addon(
    name: str,
    add_on: str,
    *,
    cluster_name: pulumi.Input[str],
    version: str | None,
    configuration: Mapping[str, object] | None = None,
    tag: Tagger,
    opts: pulumi.ResourceOptions,
) -> aws.eks.Addon:
    """Make an add-on at `version`, or at the default that EKS publishes for this Kubernetes version.

    `addonVersions` pins it: the default moves when AWS publishes a build, and the next preview then shows the update.
    """
    found = (
        version or aws.eks.get_addon_version_output(addon_name=add_on, kubernetes_version=versions.KUBERNETES).version
    )
    return aws.eks.Addon(
        name,
        cluster_name=cluster_name,
        addon_name=add_on,
        addon_version=found,
        configuration_values=json.dumps(configuration, sort_keys=True) if configuration else None,
        resolve_conflicts_on_create="OVERWRITE",
        resolve_conflicts_on_update="OVERWRITE",
        tags=tag(add_on),
        opts=opts,
    )
