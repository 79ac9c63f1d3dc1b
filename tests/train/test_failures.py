"""The root of what Ray Train raises, in one line."""

import pytest

from workloads.train.failures import LONGEST, one_line, root, said

RANKS = [{"rank": 0, "pid": 11, "node": "aa"}, {"rank": 1, "pid": 12, "node": "bb"}]
DEATH = """The actor died unexpectedly before finishing this task.
\tclass_name: RayTrainWorker
\tpid: 12
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits \
with a connection error code 2. End of file. Some common causes include: (1) the process was killed by the OOM killer."""


class HealthCheck(Exception):
    """As Ray Train wraps the end of a process."""

    def __init__(self, failure: Exception) -> None:
        super().__init__("A worker health check failed.")
        self.health_check_failure = failure


class Group(Exception):
    """As Ray Train raises it."""

    def __init__(self, worker_failures: dict[int, Exception]) -> None:
        super().__init__("Training failed due to worker errors:\n...")
        self.worker_failures = worker_failures


class Controller(Exception):
    def __init__(self, failure: Exception) -> None:
        super().__init__("Training failed due to controller error:\n...")
        self.controller_failure = failure


def test_a_dead_rank_is_the_root_of_what_the_others_say() -> None:
    closed = RuntimeError("[pair.cc:537] Read error [127.0.0.1]:29851: Connection reset by peer")
    found = root(Group({0: closed, 1: HealthCheck(Exception(DEATH))}), RANKS)
    assert found == (
        "rank 1 (pid 12 on node bb) died: its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: "
        "Worker unexpectedly exits with a connection error code 2. End of file."
    )


def test_without_a_dead_rank_the_first_one_speaks() -> None:
    found = root(Group({1: RuntimeError("CUDA error:\nunspecified launch failure"), 0: KeyError("loss")}), RANKS)
    assert found == "rank 0 (pid 11 on node aa) failed: KeyError: 'loss'"


def test_a_death_in_other_words_is_passed_on_whole() -> None:
    found = root(Group({1: HealthCheck(Exception("the node\nis gone"))}), RANKS)
    assert found == "rank 1 (pid 12 on node bb) died: the node is gone"


def test_a_rank_that_never_started_has_no_place() -> None:
    assert root(Group({3: RuntimeError("no")}), RANKS) == "rank 3 failed: RuntimeError: no"


def test_a_controller_speaks_for_itself() -> None:
    assert root(Controller(TimeoutError("60 s\nwaiting")), []) == "Ray Train: TimeoutError: 60 s waiting"
    assert root(ValueError("other"), []) == "Ray Train: ValueError: other"


@pytest.mark.parametrize(("error", "text"), [(KeyError("a"), "KeyError: 'a'"), (TimeoutError(), "TimeoutError")])
def test_an_error_is_said_with_its_class(error: Exception, text: str) -> None:
    assert said(error) == text


def test_a_line_ends_somewhere() -> None:
    assert len(one_line("x " * LONGEST)) == LONGEST
    assert one_line(" a\n\tb ") == "a b"
