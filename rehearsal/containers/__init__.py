"""Real processes in place of containers: the KubeRay operator, the Ray head and the first Ray workers.

A kubelet would start the containers of a pod that is bound to its node. Here the other pods only look as if they ran; for these
the process of the same program runs on this machine, with the pod's own arguments and environment, and the pod's status
says what became of it.
"""
