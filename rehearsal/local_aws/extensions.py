"""The one table of what is added to moto, and how it is put in place."""

from moto.ec2 import urls as ec2_urls
from moto.eks import urls as eks_urls
from moto.servicequotas import urls as quota_urls

from . import accounts, bucket_policies, delete_markers
from .dependencies import GuardedDeletes
from .eks_addons import EksAddons
from .eks_clusters import EksClusters
from .eks_nodegroups import EksNodegroups
from .eks_tags import EksTags
from .launch_templates import CheckedLaunchTemplates
from .placement_groups import PlacementGroups
from .quotas import Quotas
from .reservations import CapacityReservations
from .tags import TagsOfAdded

ADDED: dict[str, tuple[str, ...]] = {
    "ec2, new": (
        "CreatePlacementGroup",
        "DescribePlacementGroups",
        "DeletePlacementGroup",
        "CreateCapacityReservation",
        "DescribeCapacityReservations",
        "CancelCapacityReservation",
    ),
    "ec2, checked as EC2 does": (
        "CreateLaunchTemplate",
        "CreateLaunchTemplateVersion",
        "CreateNatGateway",
        "DescribeLaunchTemplates",
        "CreateTags",
        "DeleteTags",
        "DeleteNatGateway",
        "DeleteSubnet",
        "DeleteSecurityGroup",
        "DetachInternetGateway",
        "ReleaseAddress",
    ),
    "eks, new": (
        "CreateAddon",
        "DescribeAddon",
        "ListAddons",
        "UpdateAddon",
        "DeleteAddon",
        "DescribeAddonVersions",
        "CreateAccessEntry",
        "DescribeAccessEntry",
        "ListAccessEntries",
        "UpdateAccessEntry",
        "DeleteAccessEntry",
        "AssociateAccessPolicy",
        "ListAssociatedAccessPolicies",
        "DisassociateAccessPolicy",
        "CreatePodIdentityAssociation",
        "DescribePodIdentityAssociation",
        "ListPodIdentityAssociations",
        "UpdatePodIdentityAssociation",
        "DeletePodIdentityAssociation",
        "UpdateNodegroupVersion",
        "UpdateClusterVersion",
        "AssociateEncryptionConfig",
        "DescribeUpdate",
    ),
    "eks, checked as EKS does": (
        "CreateCluster",
        "UpdateClusterConfig",
        "DeleteCluster",
        "CreateNodegroup",
        "UpdateNodegroupConfig",
        "DeleteNodegroup",
        "TagResource",
        "UntagResource",
        "ListTagsForResource",
    ),
    "every service, corrected": ("the account of an access key: found without making IAM in accounts and partitions",),
    "s3, corrected": (
        "bucket policies: statements with a Condition are not evaluated",
        "delete markers: they can be deleted where versioning is suspended",
    ),
    "servicequotas, new": ("ListServiceQuotas", "GetServiceQuota"),
}
"""Actions by service; `new` are those that moto lacks."""

EKS_PATHS = (
    "/clusters/(?P<name>[^/]+)/addons$",
    "/clusters/(?P<name>[^/]+)/addons/(?P<addonName>[^/]+)$",
    "/clusters/(?P<name>[^/]+)/addons/(?P<addonName>[^/]+)/update$",
    "/addons/supported-versions$",
    "/clusters/(?P<name>[^/]+)/access-entries$",
    "/clusters/(?P<name>[^/]+)/access-entries/(?P<principalArn>.+)$",
    "/clusters/(?P<name>[^/]+)/pod-identity-associations$",
    "/clusters/(?P<name>[^/]+)/pod-identity-associations/(?P<associationId>[^/]+)$",
    "/clusters/(?P<name>[^/]+)/node-groups/(?P<nodegroupName>[^/]+)/update-version$",
    "/clusters/(?P<name>[^/]+)/updates$",
    "/clusters/(?P<name>[^/]+)/updates/(?P<updateId>[^/]+)$",
    "/clusters/(?P<name>[^/]+)/encryption-config/associate$",
)


class LocalEc2(PlacementGroups, CapacityReservations, CheckedLaunchTemplates, GuardedDeletes, TagsOfAdded):
    """moto's EC2 with the additions."""


class LocalEks(EksAddons, EksNodegroups, EksClusters, EksTags):
    """moto's EKS with the additions."""


def install() -> None:
    """Put the additions in place; do so before a moto server makes its routes. Doing it twice changes nothing."""
    ec2_urls.url_paths["{0}/"] = LocalEc2.dispatch
    for path in [*eks_urls.url_paths, *(f"{{0}}{path}" for path in EKS_PATHS)]:
        eks_urls.url_paths[path] = LocalEks.dispatch
    quota_urls.url_paths["{0}/$"] = Quotas.dispatch
    accounts.install()
    bucket_policies.install()
    delete_markers.install()
