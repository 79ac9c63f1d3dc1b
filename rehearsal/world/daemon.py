"""Keep a world: start what it consists of, let nodes and processes follow what the stack makes, end with everything."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import httpx2
from botocore.exceptions import BotoCoreError, ClientError
from lightkube.core.exceptions import ApiError

from rehearsal.cluster import LocalCluster, Programs, start_cluster
from rehearsal.containers.kubelet import Kubelet
from rehearsal.containers.pods import views
from rehearsal.containers.programs import Host
from rehearsal.containers.proxy import ServiceProxy
from rehearsal.kubernetes import Kubernetes
from rehearsal.local_aws import faults, kube
from rehearsal.nodes.fleet import Fleet
from rehearsal.nodes.registrar import Registrar
from rehearsal.processes import Supervisor, free_port
from rehearsal.world.record import Places, World, write_record

_LOG = logging.getLogger(__name__)
_TICK_S = 0.5
_AWS_TIMEOUT_S = 60.0
_REPOSITORY = Path(__file__).resolve().parents[2]
LOCAL_WORKERS = 2
"""Ray workers that run for real; further ones only look as if they ran."""


class Daemon:
    """A world that is being kept. It is ready once it has been made."""

    def __init__(
        self,
        where: Places,
        programs: Programs,
        operator: Path,
        *,
        stack: str,
        region: str,
        overrides: Mapping[str, object],
    ) -> None:
        self._where = where
        self._programs, self._operator = programs, operator
        self._supervisor = Supervisor(where.processes)
        self._clear()
        self.cluster: LocalCluster = start_cluster(where.cluster, programs, self._supervisor)
        self.aws_endpoint = self._start_aws()
        self._kubernetes = Kubernetes(self.cluster.kubeconfig)
        self._fleet = Fleet(self.aws_endpoint, region)
        self._region = region
        self._proxy = ServiceProxy(lambda host, port: self._kubelet.head_port(host, port))
        self._kubelet, self._registrar = self._attach()
        self._world = World(
            pid=os.getpid(),
            stack=stack,
            aws_endpoint=self.aws_endpoint,
            kubeconfig=str(self.cluster.kubeconfig),
            kubectl=str(self.cluster.kubectl),
            overrides=overrides,
        )
        write_record(where, self._world)

    def keep(self) -> None:
        """Follow the stack until an exception ends it, or its directory is gone: nobody could find it any more."""
        while self._where.root.exists():
            time.sleep(_TICK_S)
            try:
                self._tick()
            except (ApiError, BotoCoreError, ClientError, httpx2.HTTPError, OSError) as error:
                # A drill may have ended the API server, or the local AWS is busy: the next look tells.
                _LOG.warning("looked in vain: %s: %s", type(error).__name__, error)

    def close(self) -> None:
        """Stop everything."""
        self._where.record.unlink(missing_ok=True)
        self._proxy.stop()
        self._kubelet.stop()
        self._supervisor.stop_all()

    def _tick(self) -> None:
        clusters = self._fleet.clusters()
        if not clusters:
            if self._world.used:
                self._reset()
            return
        self._note(used=True)
        pods = views(self._kubernetes.pods())
        self._registrar.sync(self._fleet.instances(clusters), pods)
        self._kubelet.sync(pods)

    def _reset(self) -> None:
        """Begin with an empty control plane: the one of a deleted EKS cluster has gone with all that was in it."""
        self._where.record.unlink(missing_ok=True)
        _LOG.info("the EKS cluster is deleted: its control plane starts anew, empty")
        self._kubelet.stop()
        self.cluster.stop()
        self.cluster = start_cluster(self._where.cluster, self._programs, self._supervisor)
        self._kubernetes = Kubernetes(self.cluster.kubeconfig)
        self._clear()
        self._kubelet, self._registrar = self._attach()
        self._note(used=False)

    def _note(self, *, used: bool) -> None:
        if self._world.used != used:
            self._world = replace(self._world, used=used)
            write_record(self._where, self._world)

    def _clear(self) -> None:
        """Make the directories of the pods anew."""
        for directory in (self._where.pods, self._where.sessions):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(mode=0o700, parents=True)

    def _attach(self) -> tuple[Kubelet, Registrar]:
        host = Host(
            kubernetes=self._kubernetes,
            kubeconfig_for=self.cluster.kubeconfig_for,
            directory=self._where.pods,
            sessions=self._where.sessions,
            operator=self._operator,
            proxy=self._proxy.address,
            environment=self._node_environment(),
        )
        return Kubelet(host, self._supervisor, max_workers=LOCAL_WORKERS), Registrar(self._kubernetes)

    def _node_environment(self) -> Mapping[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.aws_endpoint,
            "AWS_REGION": self._region,
            "AWS_DEFAULT_REGION": self._region,
            "AWS_ACCESS_KEY_ID": "rehearsal",
            "AWS_SECRET_ACCESS_KEY": "rehearsal",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            # No model hub is asked for anything.
            "HF_HUB_OFFLINE": "1",
        }

    def _start_aws(self) -> str:
        port = free_port()
        note = self._where.root / "aws" / "endpoint.json"
        environment = {
            **os.environ,
            faults.VARIABLE: str(self._where.faults),
            kube.FILE: str(self.cluster.kubeconfig),
        }
        self._supervisor.start(
            "local-aws",
            [sys.executable, "-m", "rehearsal.local_aws", "--port", str(port), "--state-dir", str(note.parent)],
            env=environment,
            cwd=_REPOSITORY,
            ready=lambda: None if note.exists() else "it has not written where it is",
            timeout=_AWS_TIMEOUT_S,
        )
        return f"http://127.0.0.1:{port}"
