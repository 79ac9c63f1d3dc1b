"""One rank inside Ray Train: join the others, train, and tell the driver how it goes."""

# Ray and torch type their functions in part only.
# pyright: reportUnknownMemberType=false

import traceback
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import ray
from ray.train import get_context
from ray.train.collective import broadcast_from_rank_zero

from .config import Config
from .errors import TrainingError
from .events import Event
from .failures import Failure, one_line, said
from .relay import Address, RelayClient

if TYPE_CHECKING:
    from torch.distributed import Store  # pyright: ignore[reportPrivateImportUsage] -- a documented name

    from .trainer import Outcome


def rank(config: Mapping[str, object]) -> dict[str, object]:
    """Be one rank: train, and tell the driver at once of what another try would not cure.

    What torch raises as RuntimeError, a peer that is gone or a GPU that fails, is left to Ray Train, which starts all ranks again.
    """
    run, relay = cast(Config, config["config"]), RelayClient(cast(Address, config["relay"]))
    try:
        return asdict(_train(run, relay))
    except RuntimeError:
        raise
    except Exception as error:
        own = isinstance(error, TrainingError)
        failure = Failure(
            text=one_line(error) if own else f"rank {get_context().get_world_rank()} failed: {said(error)}",
            exit_code=error.exit_code if own else 1,
            traceback="" if own else traceback.format_exc(),
        )
        relay.put({"event": "failure", "failure": asdict(failure)})
        raise


def _train(config: Config, relay: RelayClient) -> "Outcome":
    # Imported here, in a rank alone: the controller of Ray Train loads this module too.
    import torch.distributed as dist

    from .device import find_device

    device = find_device(config.run.device, get_context().get_local_rank())
    # Imported when the device is there: it takes seconds.
    from .group import join
    from .trainer import train

    number = get_context().get_world_rank()
    log = join(config, number, on=device.type, store=_meeting(number))
    outcome = train(config, _RelayReporter(relay), node=ray.get_runtime_context().get_node_id(), device=device, log=log)
    dist.destroy_process_group()
    return outcome


def _meeting(number: int) -> "Store":
    """Return the store in which the ranks find each other; it lives in rank 0, on a port that the system chose."""
    from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage] -- a documented name

    from .group import COLLECTIVE_SECONDS

    timeout = timedelta(seconds=COLLECTIVE_SECONDS)
    if number == 0:
        address = cast(str, ray.util.get_node_ip_address())
        served = TCPStore(address, 0, is_master=True, wait_for_workers=False, timeout=timeout)
        broadcast_from_rank_zero({"address": address, "port": served.port})
        return served
    found = cast(Mapping[str, object], broadcast_from_rank_zero(None))
    return TCPStore(str(found["address"]), cast(int, found["port"]), is_master=False, timeout=timeout)


class _RelayReporter:
    def __init__(self, relay: RelayClient) -> None:
        self._relay = relay
        self._stop = False

    def emit(self, event: Event) -> None:
        self._stop = self._relay.put(event)

    def stop_asked(self) -> bool:
        return self._stop
