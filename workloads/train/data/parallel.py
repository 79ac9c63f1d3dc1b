"""Tokenise the units of a source on as many processors as there are. Who does it changes neither the documents nor their order."""

# Ray types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import multiprocessing
import os
import pickle
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, cast

from ..errors import TrainingError
from .documents import Documents, Recipe, documents_of
from .rows import Unit

AHEAD = 2
"""Units for each process that may be done and not yet packed."""


def tokenised(units: Sequence[Unit], recipe: Recipe) -> tuple[str, Iterator[Documents]]:
    """Return who tokenises, in words, and the documents of all units, in their order."""
    if len(units) > 1 and (processors := _ray_processors()) >= 1:
        return f"Ray Data on {processors:.0f} processors", _by_ray(units, recipe)
    processes = min(len(units), _processors())
    if processes > 1 and not multiprocessing.current_process().daemon:
        return f"{processes} processes", _by_processes(units, recipe, processes)
    return "one process", (documents_of(unit, recipe) for unit in units)


def _processors() -> int:
    return len(os.sched_getaffinity(0))


def _ray_processors() -> float:
    """Return the processors of a Ray that this process belongs to and that nobody has taken.

    A task of Ray Data waits for one for ever: where the training took them all, this node's own are used.
    """
    ray = cast(Any, sys.modules.get("ray"))
    if ray is None or not ray.is_initialized():
        return 0
    return float(ray.available_resources().get("CPU", 0))


def _by_ray(units: Sequence[Unit], recipe: Recipe) -> Iterator[Documents]:
    import ray.data

    # A block is a mapping of columns; Ray types it as all that it could be.
    def do(block: Any) -> Any:
        numbers = [int(number) for number in block["unit"]]
        return {"unit": numbers, "documents": [pickle.dumps(_said(units[number], recipe)) for number in numbers]}

    numbers = ray.data.from_items([{"unit": number} for number in range(len(units))], override_num_blocks=len(units))
    numbers.context.execution_options.preserve_order = True
    done = numbers.map_batches(do, batch_size=1)
    waiting: dict[int, Documents] = {}
    following = 0
    for row in done.iter_rows():
        # Made by the function above, in this run.
        answer = cast(Documents | TrainingError, pickle.loads(row["documents"]))  # noqa: S301
        if isinstance(answer, TrainingError):
            raise answer
        waiting[int(row["unit"])] = answer
        while following in waiting:
            yield waiting.pop(following)
            following += 1


def _said(unit: Unit, recipe: Recipe) -> Documents | TrainingError:
    """Return an error as a value: Ray would wrap it into one of its own, with its traceback."""
    try:
        return documents_of(unit, recipe)
    except TrainingError as error:
        return error


def _by_processes(units: Sequence[Unit], recipe: Recipe, processes: int) -> Iterator[Documents]:
    # Not forked: threads of the tokenizer, of torch and of CUDA would not be there in the child, but their locks would.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_alone) as pool:
        waiting: deque[Future[Documents]] = deque()
        try:
            for unit in units:
                waiting.append(pool.submit(documents_of, unit, recipe))
                if len(waiting) >= AHEAD * processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _alone() -> None:
    """Let the tokenizer start no threads: each processor has a process."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
