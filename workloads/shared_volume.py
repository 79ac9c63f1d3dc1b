"""The FSx for Lustre file system as a volume of the namespace, bound by hand: no storage class makes anything in AWS."""

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedVolumeArgs:
    """The file system and where it is used.

    `claim` names volume and claim: another file system gets another name, so that old and new stand side by side until the pods have
    moved. A volume in use cannot be deleted, and a static one cannot grow.
    """

    namespace: str
    claim: str
    filesystem_id: pulumi.Input[str]
    dns_name: pulumi.Input[str]
    mount_name: pulumi.Input[str]
    capacity_gib: int


class SharedVolume(pulumi.ComponentResource):
    """A PersistentVolume of the standing file system and the claim that pods mount at /fsx."""

    resources: list[pulumi.Resource]

    def __init__(self, name: str, args: SharedVolumeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("efa-ray-train:workloads:SharedVolume", name, None, opts)
        child, size = pulumi.ResourceOptions(parent=self), {"storage": f"{args.capacity_gib}Gi"}
        volume = kubernetes.core.v1.PersistentVolume(
            name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=f"{args.namespace}-{args.claim}"),
            spec=kubernetes.core.v1.PersistentVolumeSpecArgs(
                capacity=size,
                access_modes=["ReadWriteMany"],
                persistent_volume_reclaim_policy="Retain",
                storage_class_name="",
                mount_options=["flock"],
                csi=kubernetes.core.v1.CSIPersistentVolumeSourceArgs(
                    driver="fsx.csi.aws.com",
                    volume_handle=args.filesystem_id,
                    volume_attributes={"dnsname": args.dns_name, "mountname": args.mount_name},
                ),
                claim_ref=kubernetes.core.v1.ObjectReferenceArgs(name=args.claim, namespace=args.namespace),
            ),
            opts=child,
        )
        claim = kubernetes.core.v1.PersistentVolumeClaim(
            name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=args.claim, namespace=args.namespace),
            spec=kubernetes.core.v1.PersistentVolumeClaimSpecArgs(
                access_modes=["ReadWriteMany"],
                storage_class_name="",
                volume_name=volume.metadata.name,
                resources=kubernetes.core.v1.VolumeResourceRequirementsArgs(requests=size),
            ),
            opts=child,
        )
        self.resources = [volume, claim]
        self.register_outputs({})
