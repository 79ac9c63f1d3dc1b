"""The world of a rehearsal: local AWS, local Kubernetes and the processes in place of containers, kept by one daemon."""
