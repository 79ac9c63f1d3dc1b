"""The Node object that kubelet and cloud controller would register for an instance."""

from __future__ import annotations

from lightkube.models.core_v1 import NodeSpec, NodeStatus
from lightkube.models.core_v1 import Taint as NodeTaint
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Node

from infra.instances import allocatable
from infra.instances import instance as instance_facts
from rehearsal.nodes.fleet import Instance


def node_object(instance: Instance) -> Node:
    """Return the Node of `instance`: name, labels, taints and provider id as EKS sets them.

    Source of the labels: https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html and
    https://kubernetes.io/docs/reference/labels-annotations-taints/
    """
    name = instance.node_name
    return Node(
        metadata=ObjectMeta(
            name=name,
            labels={
                "beta.kubernetes.io/instance-type": instance.instance_type,
                "eks.amazonaws.com/capacityType": instance.capacity_type,
                "eks.amazonaws.com/nodegroup": instance.node_group,
                "failure-domain.beta.kubernetes.io/region": instance.region,
                "failure-domain.beta.kubernetes.io/zone": instance.zone,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": instance.instance_type,
                "topology.k8s.aws/zone-id": instance.zone_id,
                "topology.kubernetes.io/region": instance.region,
                "topology.kubernetes.io/zone": instance.zone,
                **instance.labels,
            },
        ),
        spec=NodeSpec(
            providerID=f"aws:///{instance.zone}/{instance.instance_id}",
            taints=[NodeTaint(key=taint.key, value=taint.value, effect=taint.effect) for taint in instance.taints],
        ),
    )


def node_status(instance: Instance) -> NodeStatus:
    """Return what the kubelet says of CPU, memory and pods before any device plugin runs.

    Allocatable is the estimate that the settings check uses, so a pod that the check lets pass is one that the scheduler can place.
    """
    facts = instance_facts(instance.instance_type)
    room = allocatable(facts)
    pods = str(facts.max_pods)
    return NodeStatus(
        capacity={"cpu": str(facts.vcpus), "memory": f"{facts.memory_gib}Gi", "pods": pods},
        allocatable={"cpu": f"{room.cpu_millis}m", "memory": f"{room.memory_mib}Mi", "pods": pods},
    )
