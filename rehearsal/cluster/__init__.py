"""A Kubernetes control plane on loopback whose nodes and pods are kept by kwok, some pods by processes of this rehearsal."""

from rehearsal.cluster.cluster import LocalCluster, start_cluster
from rehearsal.cluster.programs import Programs, find_programs

__all__ = ["LocalCluster", "Programs", "find_programs", "start_cluster"]
