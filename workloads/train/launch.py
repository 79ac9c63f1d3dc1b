"""Start the ranks with Ray Train, pass on what they say, and end as they do."""

# Ray types its functions in part only.
# pyright: reportUnknownMemberType=false

import logging
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from types import FrameType
from typing import Any, cast

import ray

from .config import Config
from .errors import StoreError, TrainingError, UsageError
from .events import Event, say
from .failures import Failure, one_line, root
from .recorder import Recorder
from .relay import Address, Relay

STOPPED = 128 + signal.SIGTERM
NODES_SECONDS = 120
"""Time for the nodes to be there: KubeRay may just be replacing one."""
STOP_SECONDS = 45
"""Time for the ranks to end a step and save after SIGTERM; the job's entry point kills this program after 60."""
GROUP_SECONDS = 600
"""Time for Ray Train to get its workers after a lost node: KubeRay has to make another."""


def run(config: Config) -> int:
    """Train with the Ray cluster that this program runs in; print events and the end, and return the exit code."""
    try:
        ray.init(address="auto", log_to_driver=False, logging_level=logging.WARNING)
    except ConnectionError as error:
        raise UsageError(f"no Ray cluster: {one_line(error)}; run this program as a job of one") from error
    driver = _Driver(config)
    code = driver.follow()
    if driver.waits:
        # The thread that waits in Ray would meet Ray's end there, which prints more lines and changes the exit code. Ray ends the ranks
        # when this program is gone, however it went.
        sys.stdout.flush()
        os._exit(code)
    return code


class _Driver:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._started = time.monotonic()
        self._relay = Relay(cast(str, ray.util.get_node_ip_address()))
        self._recorder = Recorder(config)
        self._tries = 0
        self._ranks: list[Mapping[str, object]] = []
        self._checkpoint: object = None
        self._failure: Failure | None = None
        self._outcome: dict[str, object] | None = None
        self._stop_at: float | None = None
        self._fitting = threading.Thread(target=self._fit, daemon=True)

    @property
    def waits(self) -> bool:
        """Tell whether Ray Train is still at work, after a rank or a signal ended the run."""
        return self._fitting.is_alive()

    def follow(self) -> int:
        """Wait for the end of the run; whatever ends it, its own line is the last one."""
        signal.signal(signal.SIGTERM, self._on_term)
        try:
            self._wait_for_nodes()
            self._fitting.start()
            while self._fitting.is_alive() and self._failure is None:
                self._give_up_when_late()
                self._pass_on(1.0)
            if self._failure is None:
                self._pass_on(0.0)
        except TrainingError as error:
            self._failure = Failure(text=str(error), exit_code=error.exit_code)
        return self._end()

    def _wait_for_nodes(self) -> None:
        """Wait until the cluster has the nodes that are asked for: Ray would wait for ever, and say so in a log nobody reads."""
        asked, gpus = self._config.run.num_nodes, self._config.run.gpus_per_node
        deadline = time.monotonic() + NODES_SECONDS
        while (found := _nodes_with(gpus)) < asked and self._stop_at is None:
            if time.monotonic() > deadline:
                raise UsageError(
                    f"--num-nodes: found {asked}, but after {NODES_SECONDS} s the Ray cluster has {found} nodes with {gpus} GPUs or more; "
                    "allowed: as many as there are; set --num-nodes and --gpus-per-node to what the cluster has"
                )
            time.sleep(1)

    def _on_term(self, _signal: int, _frame: FrameType | None) -> None:
        self._stop_at = self._stop_at or time.monotonic()

    def _give_up_when_late(self) -> None:
        if self._stop_at is None:
            return
        if not self._ranks:
            self._failure = Failure(text="stopped by SIGTERM before the first step", exit_code=STOPPED)
        elif time.monotonic() - self._stop_at > STOP_SECONDS:
            self._failure = Failure(
                text=f"stopped by SIGTERM; the ranks did not end within {STOP_SECONDS} s", exit_code=STOPPED
            )
        else:
            self._relay.stop()

    def _pass_on(self, seconds: float) -> None:
        for message in self._relay.take(seconds):
            if message.get("event") != "failure":
                self._recorder.take(message)
            match message.get("event"):
                case "failure":
                    self._failure = Failure(**cast(dict[str, Any], message["failure"]))
                    return
                case "plan":
                    self._plan(message)
                case "checkpoint" | "resume":
                    self._checkpoint = message["uri"] or self._checkpoint
                    say(message)
                case _:
                    say(message)

    def _plan(self, message: Event) -> None:
        self._ranks = cast(list[Mapping[str, object]], message["ranks"])
        self._tries += 1
        say({**message, "try": self._tries})

    def _fit(self) -> None:
        try:
            self._outcome = _fit(self._config, self._relay.address)
        except Exception as error:
            # Where a rank or a signal ended the run before, this is only its echo.
            if self._failure is None:
                traceback.print_exception(error)
                tried = f" (try {self._tries} of {self._config.run.max_restarts + 1})" if self._tries else ""
                self._failure = Failure(text=root(error, self._ranks) + tried)

    def _end(self) -> int:
        outcome, failure = self._outcome, self._failure
        if failure is None and outcome is not None and outcome["status"] == "stopped":
            failure = Failure(
                text=f"stopped by SIGTERM after step {outcome['steps']} of {self._config.train.steps}",
                exit_code=STOPPED,
            )
        text = self._told(failure) if failure else None
        where, failure = self._record(outcome, failure, text)
        status = "succeeded" if failure is None else "stopped" if failure.exit_code == STOPPED else "failed"
        told = {
            "event": "result",
            "run": self._config.run.name,
            "tries": self._tries,
            "checkpoint": self._checkpoint,
            **(outcome or {}),
            "status": status,
            "record": where,
            "wall_seconds": round(time.monotonic() - self._started, 3),
        }
        if failure is None:
            say(told)
            return 0
        if failure.traceback:
            print(failure.traceback, flush=True)
        text = text or failure.text
        say({**told, "reason": text})
        print(f"train: {text}", flush=True)
        return failure.exit_code

    def _told(self, failure: Failure) -> str:
        if failure.exit_code == 2 or "last complete checkpoint" in failure.text:
            return failure.text
        return f"{failure.text}; last complete checkpoint: {self._checkpoint or 'none'}"

    def _record(
        self, outcome: dict[str, object] | None, failure: Failure | None, text: str | None
    ) -> tuple[str | None, Failure | None]:
        """Write the record; return where it is, and what the run has failed of: a record that cannot be written fails a good run."""
        try:
            return self._recorder.write(outcome, text), failure
        except StoreError as error:
            if failure is None:
                return None, Failure(text=str(error))
            print(f"train: {error}", flush=True)
            return None, failure


def _nodes_with(gpus: int) -> int:
    nodes = cast(list[dict[str, Any]], ray.nodes())
    return sum(node["Alive"] and node["Resources"].get("GPU", 0) >= gpus for node in nodes)


def _fit(config: Config, relay: Address) -> dict[str, object]:
    # Read when Ray Train starts its controller. Its watcher for nodes that are taken away is one more process, and nothing here asks it.
    os.environ.setdefault("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "0")
    os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.5")
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", str(GROUP_SECONDS))
    # Imported here: it takes seconds, and this program listens to SIGTERM meanwhile.
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    from .worker import rank

    with tempfile.TemporaryDirectory(prefix="ray-train-") as unused:
        # Not TorchTrainer, which adds one thing, the process group: it loads torch into this program and into the controller, half a
        # gigabyte and seconds each, and asks Ray's GPU ids for a CUDA device. The ranks make their group themselves.
        trainer = DataParallelTrainer(
            rank,
            train_loop_config={"config": config, "relay": relay},
            scaling_config=ScalingConfig(
                num_workers=config.run.world_size,
                use_gpu=True,
                resources_per_worker={"GPU": config.run.gpus_per_node // config.run.ranks, "CPU": 1},
                # Ranks that fill their node need no more: PACK fills one node after the other.
                placement_strategy="STRICT_SPREAD" if config.run.ranks == 1 else "PACK",
            ),
            run_config=RunConfig(
                name=config.run.name,
                # Ray Train keeps nothing here, as no rank calls `report`: its checkpoints are no commits, its uploads are not
                # verified, and its S3 client (pyarrow's) finds other credentials and endpoints than boto3.
                storage_path=unused,
                failure_config=FailureConfig(
                    max_failures=config.run.max_restarts, controller_failure_limit=config.run.max_restarts
                ),
            ),
        )
        return cast(dict[str, object], trainer.fit().return_value)
