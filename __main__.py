"""The stack: settings -> infra -> workloads -> outputs."""

import pulumi

from infra.stack import build_infrastructure
from settings.stack import load
from workloads.stack import deploy_workloads

settings = load()
infrastructure = build_infrastructure(settings)
for name, value in deploy_workloads(settings, infrastructure).items():
    pulumi.export(name, value)
