"""What the pods of the job may do in AWS: read code, write their own results, and nothing else."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.cluster import Cluster
from infra.nodes import trust
from infra.tags import Tagger

SERVICE_ACCOUNT = "ray"
"""The Kubernetes service account of Ray head and workers."""
READ_PREFIXES = ("code/",)
WRITE_PREFIXES = ("checkpoints/", "runs/", "logs/")
Statement = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadIdentityArgs:
    """Where the Ray pods run, and which bucket they use."""

    cluster: Cluster
    namespace: str
    bucket_arn: pulumi.Input[str]
    key_arn: pulumi.Input[str]
    external_path: str
    """`s3://BUCKET/PREFIX` outside the stack that the job writes too, or empty."""
    tag: Tagger


class WorkloadIdentity(pulumi.ComponentResource):
    """An IAM role that EKS Pod Identity hands to one Kubernetes service account."""

    role_arn: pulumi.Output[str]
    association: aws.eks.PodIdentityAssociation

    def __init__(self, name: str, args: WorkloadIdentityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("efa-ray-train:infra:WorkloadIdentity", name, None, opts)
        child, tags = pulumi.ResourceOptions(parent=self), args.tag(name)
        role = aws.iam.Role(
            name,
            assume_role_policy=trust("pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession"),
            tags=tags,
            opts=child,
        )
        partition = aws.get_partition_output().partition
        policy = pulumi.Output.all(args.bucket_arn, args.key_arn, partition).apply(
            lambda found: json.dumps(
                {
                    "Version": "2012-10-17",
                    "Statement": [
                        *_bucket(found[0], read=READ_PREFIXES, write=WRITE_PREFIXES),
                        *_external(args.external_path, partition=found[2]),
                        {"Effect": "Allow", "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": found[1]},
                    ],
                }
            )
        )
        granted = aws.iam.RolePolicy(name, role=role.name, policy=policy, opts=child)
        self.association = aws.eks.PodIdentityAssociation(
            name,
            cluster_name=args.cluster.name,
            namespace=args.namespace,
            service_account=SERVICE_ACCOUNT,
            role_arn=role.arn,
            tags=tags,
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=[granted, *args.cluster.networking], deleted_with=args.cluster.control_plane
            ),
        )
        self.role_arn = role.arn
        self.register_outputs({"roleArn": self.role_arn})


def _bucket(arn: str, *, read: tuple[str, ...], write: tuple[str, ...]) -> list[Statement]:
    anywhere = [f"{prefix}*" for prefix in (*read, *write)]
    return [
        {
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": arn,
            "Condition": {"StringLike": {"s3:prefix": anywhere}},
        },
        # HeadBucket is this action without a prefix; pyarrow asks it before it writes (apache/arrow issue 49949).
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": arn, "Condition": {"Null": {"s3:prefix": "true"}}},
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": [f"{arn}/{pattern}" for pattern in anywhere]},
        {
            "Effect": "Allow",
            "Action": ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"],
            "Resource": [f"{arn}/{prefix}*" for prefix in write],
        },
    ]


def _external(path: str, *, partition: str) -> list[Statement]:
    if not path.startswith("s3://"):
        return []
    bucket, _, prefix = path.removeprefix("s3://").partition("/")
    arn = f"arn:{partition}:s3:::{bucket}"
    return [
        *_bucket(arn, read=(), write=(f"{prefix.rstrip('/')}/" if prefix else "",)),
        # The bucket's key is not ours to name: whichever opens this bucket's objects, through S3 alone. The key's policy decides too.
        {
            "Effect": "Allow",
            "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
            "Resource": "*",
            "Condition": {
                "StringLike": {
                    "kms:ViaService": "s3.*.amazonaws.com",
                    "kms:EncryptionContext:aws:s3:arn": [arn, f"{arn}/*"],
                }
            },
        },
    ]
