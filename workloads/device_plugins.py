"""The NVIDIA and EFA device plugins: they make GPUs and EFA interfaces of a node allocatable."""

from collections.abc import Sequence

import pulumi

from workloads.chart import release
from workloads.chart_values import ChartRelease


class DevicePlugins(pulumi.ComponentResource):
    """The plugins' Helm releases; nothing that asks for a GPU or an EFA interface is made before them."""

    releases: list[pulumi.Resource]

    def __init__(
        self, name: str, charts: Sequence[ChartRelease], *, source: str, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("efa-ray-train:workloads:DevicePlugins", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.releases = [release(chart.chart, chart, source=source, opts=child) for chart in charts]
        self.register_outputs({})
