"""The KMS key of the cluster: Kubernetes secrets and the nodes' volumes."""

import json

import pulumi
import pulumi_aws as aws

from infra.tags import Tagger


def cluster_key(name: str, *, tag: Tagger, opts: pulumi.ResourceOptions) -> aws.kms.Key:
    """Make the key that encrypts Kubernetes secrets and node volumes.

    Managed node groups launch through EC2 Auto Scaling, whose service-linked role opens the volumes and has no KMS permission of its own:
    without the two statements here instances end with `Client.InvalidKMSKey.InvalidState` right after they start. The role is named by
    condition and not as principal, since KMS refuses a policy that names a role which the account does not have yet.
    """
    account, partition = aws.get_caller_identity_output().account_id, aws.get_partition_output().partition
    policy = pulumi.Output.all(account, partition).apply(lambda found: _policy(account=found[0], partition=found[1]))
    return aws.kms.Key(
        name,
        description="efa-ray-train: Kubernetes secrets and node volumes",
        enable_key_rotation=True,
        deletion_window_in_days=7,
        policy=policy,
        tags=tag("cluster-key"),
        opts=opts,
    )


def _policy(*, account: str, partition: str) -> str:
    scaling = (
        f"arn:{partition}:iam::{account}:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
    )
    by_scaling = {"StringEquals": {"kms:CallerAccount": account}, "ArnEquals": {"aws:PrincipalArn": scaling}}
    return json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Sid": "AccountAdministersThroughIam",
                    "Effect": "Allow",
                    "Principal": {"AWS": f"arn:{partition}:iam::{account}:root"},
                    "Action": "kms:*",
                    "Resource": "*",
                },
                {
                    "Sid": "AutoScalingOpensNodeVolumes",
                    "Effect": "Allow",
                    "Principal": {"AWS": "*"},
                    "Action": [
                        "kms:Decrypt",
                        "kms:DescribeKey",
                        "kms:Encrypt",
                        "kms:GenerateDataKey*",
                        "kms:ReEncrypt*",
                    ],
                    "Resource": "*",
                    "Condition": by_scaling,
                },
                {
                    "Sid": "AutoScalingGrantsNodeVolumes",
                    "Effect": "Allow",
                    "Principal": {"AWS": "*"},
                    "Action": "kms:CreateGrant",
                    "Resource": "*",
                    "Condition": {**by_scaling, "Bool": {"kms:GrantIsForAWSResource": True}},
                },
            ],
        }
    )
