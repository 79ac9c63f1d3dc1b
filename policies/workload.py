"""Workload: Ray's pods ask for what they use, and fit the nodes that the stack makes."""

from collections.abc import Iterator
from math import floor
from typing import Final

from infra.instances import INSTANCE_TYPES
from policies import tokens
from policies.efa import INSTANCE_TABLE, attached_efa
from policies.graph import Graph, Resource
from policies.node_groups import NodeGroup, node_groups
from policies.pods import RayGroup, pods, ray_groups, ray_groups_of
from policies.rules import Finding, ResourceRule, StackRule, not_checked, not_visible, violation
from policies.values import UNKNOWN, Unknown, at, entries, fields, number, quantity, show, truth

_SERVE_PORT: Final = 8000
_SERVE_KEY: Final = "ray.io/enable-serve-service"


def check_requests(resource: Resource) -> Iterator[Finding]:
    """Check that Ray's containers request exactly their limits and that Ray is told of the same GPUs and CPUs."""
    groups = ray_groups(resource)
    for group in groups:
        yield from _requests_equal_limits(group)
        if group.role == "worker":
            yield from _gpus_of_ray(group)
    if any(group.asks(tokens.GPU) is not False for group in groups if group.role == "worker"):
        yield from _head_runs_no_work(groups[0])


def _requests_equal_limits(group: RayGroup) -> Iterator[Finding]:
    where = f"{group.path} of {group.resource.name}"
    for section in ("requests", "limits"):
        if at(group.container, "resources", section) is UNKNOWN:
            yield not_checked(group.resource, f"{group.path} resources.{section}", then="requests equal limits")
            return
    requests = fields(at(group.container, "resources", "requests"))
    limits = fields(at(group.container, "resources", "limits"))
    for name in sorted({*requests, *limits, "cpu", "memory"}):
        asked, limit = requests.get(name, limits.get(name)), limits.get(name)
        if UNKNOWN in (asked, limit):
            yield not_checked(group.resource, f"{group.path} {name}", then="the request equals the limit")
        elif limit is None or quantity(asked) != quantity(limit):
            yield violation(
                group.resource,
                f"{name} request {show(asked)} and limit {show(limit)} in {where}",
                allowed="a request equal to the limit",
                why="other pods may otherwise take what a rank counts on, and one slow rank slows all",
                fix=f"set request and limit of {name} to one value (workerGpus for GPUs)",
            )


def _gpus_of_ray(group: RayGroup) -> Iterator[Finding]:
    told = at(group.body, "rayStartParams", "num-gpus")
    has = group.limit(tokens.GPU)
    if UNKNOWN in (told, has):
        yield not_checked(
            group.resource, f"{group.path} num-gpus or {tokens.GPU}", then="Ray's num-gpus equals the GPU limit"
        )
    elif told is not None and quantity(told) != (quantity(has) or 0):
        yield violation(
            group.resource,
            f"rayStartParams num-gpus {show(told)} with {tokens.GPU} {show(has)} in {group.path} "
            f"of {group.resource.name}",
            allowed=f"num-gpus equal to the {tokens.GPU} limit, or unset",
            why="Ray would place ranks on GPUs that the pod does not have, or leave GPUs idle",
            fix="set workerGpus, and remove num-gpus from workerRayStartParams",
        )


def _head_runs_no_work(head: RayGroup) -> Iterator[Finding]:
    cpus = at(head.body, "rayStartParams", "num-cpus")
    if cpus is UNKNOWN:
        yield not_checked(head.resource, f"{head.path}.rayStartParams", then="the head's num-cpus is 0")
    elif quantity(cpus) != 0:
        yield violation(
            head.resource,
            f"rayStartParams num-cpus {show(cpus)} in {head.path} of {head.resource.name}",
            allowed='"0"',
            why="Ray would start tasks on the head, which has no GPU and keeps the cluster's state",
            fix='set rayStartParams num-cpus of the head to "0"',
        )


def check_fit(graph: Graph) -> Iterator[Finding]:
    """Check that the workers that ask for GPUs or EFA fit the GPU nodes of the stack, all at once."""
    nodes = [group for group in node_groups(graph) if group.has_gpus is not False]
    if not nodes:
        return
    for worker in ray_groups_of(graph):
        if worker.role != "worker" or (worker.asks(tokens.GPU) is False and worker.asks(tokens.EFA) is False):
            continue
        if UNKNOWN in (worker.asks(tokens.GPU), worker.asks(tokens.EFA)) or worker.body is UNKNOWN:
            yield not_checked(worker.resource, f"{worker.path} resources", then="the workers fit the GPU nodes")
        else:
            yield from _fit(worker, nodes)


def _fit(worker: RayGroup, nodes: list[NodeGroup]) -> Iterator[Finding]:
    # KubeRay takes absent replicas for the least that it may run, and an absent number of hosts for one.
    least = at(worker.body, "minReplicas")
    replicas, hosts = at(worker.body, "replicas"), at(worker.body, "numOfHosts")
    replicas = replicas if replicas is not None else least if least is not None else 0
    pods_wanted = (number(replicas), number(hosts if hosts is not None else 1))
    room = 0
    offers: list[str] = []
    for group in nodes:
        count = number(at(group.resource.props, "scalingConfig", "maxSize"))
        name = group.instance_types[0] if group.instance_types else UNKNOWN
        facts = INSTANCE_TYPES.get(str(name))
        efa: int | Unknown = attached_efa(group.template) if group.template is not None else UNKNOWN
        if count is None or name is UNKNOWN or efa is UNKNOWN or None in pods_wanted:
            yield not_checked(
                worker.resource, f"size, instance type or EFA of node group {group.resource.name}", then="workers fit"
            )
            return
        if facts is None:
            yield not_visible(
                worker.resource,
                f"instance type {name}",
                check="its GPUs against the workers' limits",
                where=INSTANCE_TABLE,
            )
            return
        per_node = min(
            floor(offered / wanted)
            for key, offered in ((tokens.GPU, facts.gpus), (tokens.EFA, efa))
            if (wanted := quantity(worker.limit(key)))
        )
        room += count * per_node
        offers.append(f"{count} x {facts.name} with {facts.gpus} GPUs and {efa} EFA each")
    wanted_pods = (pods_wanted[0] or 0) * (pods_wanted[1] or 0)
    if wanted_pods > room:
        yield violation(
            worker.resource,
            f"{wanted_pods} pods of workers {worker.name}, each with {show(worker.limit(tokens.GPU))} GPUs and "
            f"{show(worker.limit(tokens.EFA))} EFA",
            allowed=f"at most {room} such pods on {' and '.join(offers)}",
            why="GPUs and EFA devices are exclusive: the rest waits for ever (Insufficient vpc.amazonaws.com/efa)",
            fix="one worker per node: set gpuNodeCount, workerGpus and efaInterfaces to what the nodes have",
        )


def check_serve(resource: Resource) -> Iterator[Finding]:
    """Check that nothing makes KubeRay wait for a Ray Serve application that does not exist."""
    if not ray_groups(resource) or resource.type.endswith(":RayService"):
        return
    annotation = truth(at(resource.props, "metadata", "annotations", _SERVE_KEY))
    if annotation is UNKNOWN:
        yield not_checked(resource, f"annotation {_SERVE_KEY}", then="it is not true")
    elif annotation:
        yield _serve(resource, f'annotation {_SERVE_KEY} "true"')
    for pod in pods(resource):
        for container in pod.containers():
            ports = [at(port, "containerPort") for port in entries(at(container, "ports"))]
            ports += [
                at(container, probe, "httpGet", "port") for probe in ("readinessProbe", "livenessProbe", "startupProbe")
            ]
            if any(number(port) == _SERVE_PORT for port in ports):
                yield _serve(resource, f"port {_SERVE_PORT} in {pod.path}")
            elif UNKNOWN in ports:
                yield not_checked(resource, f"a port in {pod.path}", then=f"no port or probe is {_SERVE_PORT}")


def _serve(resource: Resource, found: str) -> Finding:
    return violation(
        resource,
        f"{found} of {resource.name}",
        allowed="neither the serve annotation nor port 8000",
        why="the readiness probe then waits for a Serve application, so the pod is never Ready",
        fix="remove it: training uses no Ray Serve",
    )


RULES = (
    ResourceRule(
        id="ray-requests",
        what="Ray containers request their limits, num-gpus equals the GPU limit, and the head has num-cpus 0.",
        why="A rank gets what it counts on, and no work lands on the head.",
        fix="One value for request and limit; `workerGpus`; `workerRayStartParams` without num-gpus.",
        check=check_requests,
    ),
    StackRule(
        id="workers-fit",
        what="All GPU workers fit the GPU nodes at once, by GPUs and EFA devices.",
        why="Devices are exclusive: a pod too many waits for ever.",
        fix="One worker a node: `gpuNodeCount`, `workerGpus`, `efaInterfaces`.",
        check=check_fit,
    ),
    ResourceRule(
        id="no-serve",
        what="No serve annotation and no port 8000 on Ray pods.",
        why="A pod that waits for a Serve application is never Ready.",
        fix="Remove it.",
        check=check_serve,
    ),
)
