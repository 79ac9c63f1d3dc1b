"""Which modules are imported ahead of the program."""

from __future__ import annotations

from pathlib import Path

from rehearsal.engine.preload import sdk_modules


def test_the_modules_that_the_files_name_are_found(tmp_path: Path) -> None:
    (tmp_path / "infra").mkdir()
    (tmp_path / "__main__.py").write_text("import pulumi\nimport pulumi_eks\npulumi_eks.Cluster('c')\n")
    (tmp_path / "infra/network.py").write_text(
        "import pulumi_aws as aws\n\ndef f():\n    aws.ec2.Vpc('v')\n    aws.get_region()\n    aws.s3.BucketV2('b')\n"
    )
    (tmp_path / "infra/charts.py").write_text("import pulumi_kubernetes as k8s\nk8s.helm.v3.Release('r')\n")
    assert sdk_modules(tmp_path) == [
        "pulumi",
        "pulumi_aws",
        "pulumi_aws.ec2",
        "pulumi_aws.s3",
        "pulumi_eks",
        "pulumi_kubernetes",
        "pulumi_kubernetes.helm.v3",
    ]


def test_a_program_without_a_provider_needs_the_sdk_alone(tmp_path: Path) -> None:
    assert sdk_modules(tmp_path) == ["pulumi"]
