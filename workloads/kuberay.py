"""The KubeRay operator and its CRDs."""

import pulumi

from workloads.chart import release
from workloads.chart_values import ChartRelease


class KubeRay(pulumi.ComponentResource):
    """The operator's Helm release, in a namespace of its own.

    Helm installs a chart's CRDs and never upgrades them: a newer operator needs `kubectl apply --server-side` of its CRDs first.
    """

    release: pulumi.Resource

    def __init__(
        self, name: str, chart: ChartRelease, *, source: str, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("efa-ray-train:workloads:KubeRay", name, None, opts)
        self.release = release(
            chart.chart, chart, source=source, create_namespace=True, opts=pulumi.ResourceOptions(parent=self)
        )
        self.register_outputs({})
