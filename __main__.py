"""The stack: settings -> infra -> workloads -> outputs."""

import gc

# The SDKs define thousands of classes that live to the end: collecting among them takes a fifth of their import.
gc.disable()

import pulumi

from infra.stack import build_infrastructure
from settings.stack import load
from workloads.stack import deploy_workloads

gc.enable()

settings = load()
infrastructure = build_infrastructure(settings)
for name, value in deploy_workloads(settings, infrastructure).items():
    pulumi.export(name, value)
