"""Get the programs that a rehearsal needs: an official Pulumi where there is one, else builds of its Go modules in a cache."""

from rehearsal.toolchain.crds import kuberay_crds
from rehearsal.toolchain.pulumi import Toolchain, find_toolchain

__all__ = ["Toolchain", "find_toolchain", "kuberay_crds"]
