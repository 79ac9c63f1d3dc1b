"""The nodes of the rehearsal: what EC2 and the kubelet would tell Kubernetes about the instances of a node group."""
