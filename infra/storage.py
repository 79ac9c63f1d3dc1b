"""The artifact bucket: code, checkpoints, run records and logs, encrypted, versioned and closed to the public."""

import json
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.tags import Tagger


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageArgs:
    """What becomes of artifacts, and the optional shared file system."""

    keep: bool
    """Leave bucket and key in the account when the stack goes."""
    retention_days: int
    tag: Tagger


class Storage(pulumi.ComponentResource):
    """An S3 bucket with a KMS key of its own: results stay readable after the cluster and its key are gone."""

    bucket: aws.s3.Bucket
    bucket_name: pulumi.Output[str]
    bucket_arn: pulumi.Output[str]
    key_arn: pulumi.Output[str]
    ready: list[pulumi.Resource]
    """Encryption, versioning and access rules: nothing is written before they hold."""

    def __init__(self, name: str, args: StorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("efa-ray-train:infra:Storage", name, None, opts)
        child = pulumi.ResourceOptions(parent=self, retain_on_delete=args.keep)
        key = aws.kms.Key(
            name,
            description="efa-ray-train: training artifacts",
            enable_key_rotation=True,
            deletion_window_in_days=7,
            tags=args.tag("artifacts-key"),
            opts=child,
        )
        self.bucket = aws.s3.Bucket(name, force_destroy=not args.keep, tags=args.tag("artifacts"), opts=child)
        encryption = aws.s3.BucketServerSideEncryptionConfiguration(
            name,
            bucket=self.bucket.id,
            rules=[
                aws.s3.BucketServerSideEncryptionConfigurationRuleArgs(
                    bucket_key_enabled=True,
                    apply_server_side_encryption_by_default=aws.s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
                        sse_algorithm="aws:kms", kms_master_key_id=key.arn
                    ),
                )
            ],
            opts=child,
        )
        versioning = aws.s3.BucketVersioning(
            name,
            bucket=self.bucket.id,
            versioning_configuration=aws.s3.BucketVersioningVersioningConfigurationArgs(status="Enabled"),
            opts=child,
        )
        closed = aws.s3.BucketPublicAccessBlock(
            name,
            bucket=self.bucket.id,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=child,
        )
        owned = aws.s3.BucketOwnershipControls(
            name,
            bucket=self.bucket.id,
            rule=aws.s3.BucketOwnershipControlsRuleArgs(object_ownership="BucketOwnerEnforced"),
            opts=child,
        )
        policy = aws.s3.BucketPolicy(
            name,
            bucket=self.bucket.id,
            policy=self.bucket.arn.apply(_tls_only),
            # S3 serialises a bucket's access settings: changed at once, one of them answers OperationAborted.
            opts=pulumi.ResourceOptions(parent=self, retain_on_delete=args.keep, depends_on=[closed, owned]),
        )
        lifecycle = self._lifecycle(name, args, after=versioning)
        self.ready = [encryption, versioning, closed, owned, policy, lifecycle]
        self.bucket_name, self.bucket_arn, self.key_arn = self.bucket.bucket, self.bucket.arn, key.arn
        self.register_outputs({"bucket": self.bucket_name})

    def _lifecycle(
        self, name: str, args: StorageArgs, *, after: pulumi.Resource
    ) -> aws.s3.BucketLifecycleConfiguration:
        """Remove superseded versions and abandoned uploads; the newest version of an artifact stays."""
        return aws.s3.BucketLifecycleConfiguration(
            name,
            bucket=self.bucket.id,
            rules=[
                aws.s3.BucketLifecycleConfigurationRuleArgs(
                    id="superseded",
                    status="Enabled",
                    filter=aws.s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=""),
                    noncurrent_version_expiration=aws.s3.BucketLifecycleConfigurationRuleNoncurrentVersionExpirationArgs(
                        noncurrent_days=args.retention_days
                    ),
                    abort_incomplete_multipart_upload=aws.s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(
                        days_after_initiation=1
                    ),
                )
            ],
            opts=pulumi.ResourceOptions(parent=self, retain_on_delete=args.keep, depends_on=[after]),
        )


def _tls_only(bucket_arn: str) -> str:
    statement = {
        "Sid": "TlsOnly",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [bucket_arn, f"{bucket_arn}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
