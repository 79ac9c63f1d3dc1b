"""One rank under torchrun: `torchrun --nproc-per-node=N -m train ...`, without Ray. Rank 0 prints the events."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import os
import signal
import socket
import sys
import time
from dataclasses import asdict
from types import FrameType

import torch.distributed as dist

from .config import Config
from .device import CUDA, find_device
from .errors import TrainingError
from .events import Event, say
from .group import join
from .metrics import StepMetrics
from .recorder import Recorder
from .trainer import train

STOPPED = 128 + signal.SIGTERM


def run(config: Config) -> int:
    """Be a rank: train as the configuration says, and return the exit code. The environment is torchrun's."""
    rank, started = int(os.environ["RANK"]), time.monotonic()
    recorder = Recorder(config)
    reporter = _Printer(recorder if rank == 0 else None)
    signal.signal(signal.SIGTERM, reporter.on_term)
    device = find_device(config.run.device, int(os.environ["LOCAL_RANK"]))
    log = join(config, rank, on=device.type, device_id=device if device.type == CUDA else None)
    try:
        node = os.environ.get("GROUP_RANK", "0")
        outcome = train(config, reporter, node=f"{socket.gethostname()}-{node}", device=device, log=log)
    except TrainingError as error:
        if rank == 0:
            where = recorder.write(None, str(error))
            say({"event": "result", "run": config.run.name, "status": "failed", "reason": str(error), "record": where})
        raise
    dist.destroy_process_group()
    if rank == 0:
        stopped = None if outcome.status == "succeeded" else f"stopped by SIGTERM after step {outcome.steps}"
        where = recorder.write(asdict(outcome), stopped)
        wall = round(time.monotonic() - started, 3)
        say({"event": "result", "run": config.run.name, **asdict(outcome), "record": where, "wall_seconds": wall})
    return 0 if outcome.status == "succeeded" else STOPPED


class _Printer:
    """Events as JSON on standard output, steps for people beside them on standard error."""

    def __init__(self, recorder: Recorder | None) -> None:
        self._recorder = recorder
        """None on a rank that does not speak."""
        self._stop = False

    def emit(self, event: Event) -> None:
        if self._recorder is None:
            return
        self._recorder.take(event)
        say(event)
        if event["event"] == "step":
            print(StepMetrics.of(event).line(), file=sys.stderr, flush=True)

    def stop_asked(self) -> bool:
        return self._stop

    def on_term(self, _signal: int, _frame: FrameType | None) -> None:
        """Ask the run to save and end after this step."""
        self._stop = True
