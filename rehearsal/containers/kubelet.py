"""Run the pods that run for real: start what is bound to a node, restart what ended, stop what is deleted, say how it is."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rehearsal.cluster import streams
from rehearsal.cluster.stages import PROCESS_ANNOTATION, STAND_IN_ANNOTATION
from rehearsal.containers import programs
from rehearsal.containers.environment import UnresolvedError
from rehearsal.containers.log_copy import LogCopy
from rehearsal.containers.pods import PodView, Role
from rehearsal.containers.probe import is_ready
from rehearsal.containers.programs import Host, Program
from rehearsal.containers.status import ProcessState, pod_status
from rehearsal.processes import Supervised, Supervisor

_LOG = logging.getLogger(__name__)
_GRACE_S = 5.0
_RESTART_PAUSE_S = 1.0
"""The kubelet begins with 10 s and doubles; nobody has to wait that long for a process of this machine."""


@dataclass(slots=True)
class _Run:
    """A pod whose process is ours."""

    pod: PodView
    name: str
    state: ProcessState
    program: Program | None = None
    process: Supervised | None = None
    log: LogCopy | None = None
    not_before: float = 0.0
    told: Mapping[str, Any] | None = None
    """The status that was written last."""


class Kubelet:
    """Keeps the processes of real pods as the API server wants them. Call `sync` again and again."""

    def __init__(self, host: Host, supervisor: Supervisor, *, max_workers: int) -> None:
        self._host = host
        self._supervisor = supervisor
        self._max_workers = max_workers
        self._runs: dict[str, _Run] = {}
        self._left: set[str] = set()
        """Uids of worker pods beyond the first, which only look as if they ran."""

    def head_port(self, host: str, port: int) -> int | None:
        """Return the local port of the Ray head that Service `host` names, None when no such head runs."""
        if port != programs.DASHBOARD_PORT:
            return None
        for run in list(self._runs.values()):
            if run.pod.role is Role.RAY_HEAD and run.program is not None and run.process is not None:
                namespace, cluster = run.pod.ray_cluster.split("/")
                if host.startswith(f"{cluster}-head-svc.{namespace}."):
                    return run.program.ports[port]
        return None

    def sync(self, pods: Sequence[PodView]) -> None:
        """Bring the processes in line with the pods of the cluster."""
        present = {pod.uid for pod in pods}
        for uid in [uid for uid in self._runs if uid not in present]:
            self._stop(self._runs.pop(uid))
        self._left &= present
        for pod in pods:
            if pod.role is None or not pod.node or pod.uid in self._left:
                continue
            if pod.uid not in self._runs:
                if pod.deleting:
                    continue
                if pod.role is Role.RAY_WORKER and self._num_workers() >= self._max_workers:
                    self._leave(pod)
                    continue
                self._take(pod)
            run = self._runs[pod.uid]
            run.pod = pod
            if pod.deleting:
                self._remove(run)
            else:
                self._keep(run)

    def stop(self) -> None:
        """Stop every process, the workers first."""
        order = (Role.RAY_WORKER, Role.RAY_HEAD, Role.OPERATOR)
        for run in sorted(self._runs.values(), key=lambda run: order.index(run.pod.role or Role.OPERATOR)):
            self._stop(run)
        self._runs.clear()

    def _num_workers(self) -> int:
        return sum(run.pod.role is Role.RAY_WORKER for run in self._runs.values())

    def _take(self, pod: PodView) -> None:
        name = f"{pod.role.value if pod.role else 'pod'}-{pod.name}"
        self._host.kubernetes.annotate_pod(pod.namespace, pod.name, {PROCESS_ANNOTATION: name})
        self._runs[pod.uid] = _Run(pod, name, ProcessState())

    def _leave(self, pod: PodView) -> None:
        self._host.kubernetes.annotate_pod(pod.namespace, pod.name, {STAND_IN_ANNOTATION: "true"})
        self._left.add(pod.uid)

    def _keep(self, run: _Run) -> None:
        if run.process is None:
            self._start(run)
        elif not run.process.alive:
            status = run.process.exit_status
            _LOG.warning("%s ended with status %s; it is started again", run.name, status)
            self._stop(run)
            run.state = replace(
                run.state, running=False, ready=False, restarts=run.state.restarts + 1, exit_status=status
            )
            run.not_before = time.monotonic() + _RESTART_PAUSE_S
        elif run.program is not None:
            if run.log is not None:
                run.log.advance()
            run.state = replace(run.state, ready=is_ready(run.pod.main, run.program.ports))
        self._tell(run)

    def _start(self, run: _Run) -> None:
        if time.monotonic() < run.not_before:
            return
        try:
            # Only a worker's depends on another process, its head; the others keep their ports when they start again.
            if run.program is None or run.pod.role is Role.RAY_WORKER:
                run.program = self._program(run.pod)
        except UnresolvedError as reason:
            run.state = replace(run.state, waiting=str(reason))
            return
        run.process = self._supervisor.launch(
            run.name, run.program.command, env=run.program.environment, cwd=self._host.directory
        )
        container_log = self._host.directory / f"{run.pod.uid}.log"
        run.log = LogCopy(run.process.log, container_log)
        self._lead_streams(run.pod, run.program, container_log)
        run.state = replace(run.state, running=True, started=datetime.now(UTC), waiting="")

    def _program(self, pod: PodView) -> Program:
        if pod.role is Role.OPERATOR:
            return programs.operator_program(self._host, pod)
        if pod.role is Role.RAY_HEAD:
            return programs.head_program(self._host, pod)
        for run in self._runs.values():
            # What the init container waits for that KubeRay gives to workers.
            head = run.program.head if run.program is not None and run.state.ready else None
            if head is not None and run.pod.ray_cluster == pod.ray_cluster:
                return programs.worker_program(self._host, pod, head)
        raise UnresolvedError(f"pod {pod.key}: waits for the head of {pod.ray_cluster}")

    def _remove(self, run: _Run) -> None:
        self._stop(run)
        del self._runs[run.pod.uid]
        self._host.kubernetes.remove_pod(run.pod.namespace, run.pod.name)

    def _stop(self, run: _Run) -> None:
        self._supervisor.stop(run.name, _GRACE_S)
        run.process = None

    def _lead_streams(self, pod: PodView, program: Program, container_log: Path) -> None:
        """Let `kubectl logs`, `exec` and `port-forward` of the pod reach the process."""
        owner = streams.Pod(namespace=pod.namespace, name=pod.name, uid=pod.uid)
        shell = streams.Shell(environment=program.environment, work_dir=self._host.directory)
        self._host.kubernetes.put("logs", streams.logs(owner, {pod.main.name: container_log}))
        self._host.kubernetes.put("execs", streams.exec_(owner, {pod.main.name: shell}))
        self._host.kubernetes.put("portforwards", streams.port_forward(owner, program.ports))

    def _tell(self, run: _Run) -> None:
        status = pod_status(run.pod, run.state)
        if status == run.told:
            return
        self._host.kubernetes.patch_pod_status(run.pod.namespace, run.pod.name, status)
        run.told = status
