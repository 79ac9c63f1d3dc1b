"""A Helm release whose chart comes from its own repository, a directory or an OCI mirror."""

import pulumi
import pulumi_kubernetes as kubernetes

from workloads.chart_values import ChartRelease

TIMEOUT_SECONDS = 600
UPSTREAM = "upstream"


def release(
    name: str, chart: ChartRelease, *, source: str, opts: pulumi.ResourceOptions, create_namespace: bool = False
) -> kubernetes.helm.v3.Release:
    """Install `chart` from `source`: `upstream`, a directory that holds the chart's folder, or an `oci://` prefix.

    The release is atomic: one that fails in time is rolled back, and leaves no `pending-install` behind that blocks the next update.
    """
    upstream = source == UPSTREAM
    return kubernetes.helm.v3.Release(
        name,
        name=chart.chart,
        chart=chart.chart if upstream else f"{source.rstrip('/')}/{chart.chart}",
        # A directory has the version that it has; Helm refuses the parameter there.
        version=chart.version if upstream or source.startswith("oci://") else None,
        repository_opts=kubernetes.helm.v3.RepositoryOptsArgs(repo=chart.repository) if upstream else None,
        namespace=chart.namespace,
        create_namespace=create_namespace,
        values=dict(chart.values),
        atomic=True,
        cleanup_on_fail=True,
        timeout=TIMEOUT_SECONDS,
        opts=opts,
    )
