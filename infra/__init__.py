"""The part that talks to AWS: network, cluster, nodes, storage and identity."""
