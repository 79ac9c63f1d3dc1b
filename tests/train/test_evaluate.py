"""Held-out loss and multiple choice: exact over any number of rows and ranks."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.train.data.data_support import VOCAB, WORDS, opened, write
from tests.train.rank_pool import pool
from workloads.train.data.batch import IGNORED
from workloads.train.data.sequences import Sequences
from workloads.train.errors import UsageError
from workloads.train.evaluate import Evaluation, Evaluator, Question, read_questions
from workloads.train.sections import EvaluateConfig

pytestmark = pytest.mark.xdist_group("ranks")


class Bigrams(torch.nn.Module):
    """A model that looks at one token: its loss is known exactly."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = torch.nn.Parameter(torch.randn(VOCAB, VOCAB, generator=generator, dtype=torch.float64))
        self.shapes: list[tuple[int, ...]] = []
        self.told: list[tuple[bool, bool]] = []

    def forward(
        self, input_ids: torch.Tensor, position_ids: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.shapes.append(tuple(input_ids.shape))
        self.told.append((self.training, torch.is_grad_enabled()))
        logits = self.table[input_ids].flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, labels.flatten(), ignore_index=IGNORED, reduction="sum")
        return loss, (labels != IGNORED).sum()


def evaluator(held_out: Sequences, questions: Sequence[Question] = (), **settings: Any) -> Evaluator:
    values: dict[str, Any] = {"micro_batch": 2, "rank": 0, "world_size": 1, "device": torch.device("cpu")}
    return Evaluator(held_out=held_out, questions=questions, words=WORDS, **{**values, **settings})


def rows_17(path: Path) -> Sequences:
    """17 sequences of different numbers of tokens that count."""
    rows = [{"text": "abcdefgh"[number % 8] * (17 + number % 16)} for number in range(17)]
    held_out = opened(write(path / "a.jsonl", rows), path / "cache").train
    assert len(held_out) == 17
    return held_out


QUESTIONS = [
    Question("one", ("a", "bb", "c"), 0),
    Question("two ", ("dd", "ee"), 1),
    Question("three", ("f", "g", "h", "iiii"), 2),
]


def expected(held_out: Sequences) -> tuple[float, int]:
    """Return loss and tokens, token by token."""
    batch, table = held_out.batch(range(len(held_out))), Bigrams().table.detach().log_softmax(-1)
    pairs = [
        (int(token), int(label))
        for token, label in zip(batch.input_ids.ravel(), batch.labels.ravel(), strict=True)
        if label != IGNORED
    ]
    return -sum(float(table[pair]) for pair in pairs) / len(pairs), len(pairs)


def test_the_loss_is_the_mean_over_all_tokens(tmp_path: Path) -> None:
    """The last batch is not full, and rows differ in tokens: a mean of means would be another number."""
    held_out = rows_17(tmp_path)
    loss, tokens = expected(held_out)
    for micro_batch in (1, 2, 8, 17, 20):
        found = evaluator(held_out, micro_batch=micro_batch).evaluate(Bigrams(), when="before", step=0)
        assert found.loss == pytest.approx(loss, rel=1e-12)
        assert (found.num_tokens, found.num_sequences) == (tokens, 17)
        assert found.perplexity == pytest.approx(math.exp(loss))


def test_ranks_agree_on_what_one_process_finds(tmp_path: Path) -> None:
    """17 rows and 9 choices on 4 ranks: all run the model equally often, or a sharded one would wait for ever."""
    alone = evaluator(rows_17(tmp_path), QUESTIONS).evaluate(Bigrams(), when="after", step=3)
    with pool(4) as ranks:
        found: list[tuple[Evaluation, int]] = ranks(_evaluate, tmp_path)
    for one, _ in found:
        assert one.loss == pytest.approx(alone.loss, rel=1e-12)
        assert (one.num_tokens, one.accuracy, one.num_questions) == (alone.num_tokens, alone.accuracy, 3)
        assert one == found[0][0]
    assert {calls for _, calls in found} == {3 + 3}


def _evaluate(rank: int, path: Path) -> tuple[Evaluation, int]:
    model = Bigrams()
    one = evaluator(rows_17(path), QUESTIONS, rank=rank, world_size=4)
    return one.evaluate(model, when="after", step=3), len(model.shapes)


def test_the_same_model_is_evaluated_the_same(tmp_path: Path) -> None:
    one, model = evaluator(rows_17(tmp_path)), Bigrams()
    assert one.evaluate(model, when="before", step=0) == one.evaluate(model, when="before", step=0)


def test_a_model_is_left_as_it_was(tmp_path: Path) -> None:
    held_out, model = rows_17(tmp_path), Bigrams()
    evaluator(held_out, QUESTIONS).evaluate(model, when="before", step=0)
    assert set(model.told) == {(False, False)}, "neither dropout nor gradients"
    assert model.training
    assert model.table.grad is None
    model.eval()
    evaluator(held_out).evaluate(model, when="before", step=0)
    assert not model.training


def test_all_batches_have_one_shape(tmp_path: Path) -> None:
    """A compiled model is compiled anew for another."""
    model = Bigrams()
    evaluator(rows_17(tmp_path), micro_batch=4).evaluate(model, when="before", step=0)
    assert model.shapes == [(4, 32)] * 5


def test_the_most_likely_choice_is_the_answer_of_the_model(tmp_path: Path) -> None:
    """By the summed log-probability of the choice with the space before it, given the question."""
    table = Bigrams().table.detach().log_softmax(-1)
    right = 0
    for one in QUESTIONS:
        scores: list[float] = []
        for choice in one.choices:
            tokens = WORDS.encode([f"{one.question.strip()} {choice}"])[0][:-1]
            first = len(one.question) - 1
            scores.append(sum(float(table[tokens[at], tokens[at + 1]]) for at in range(first, len(tokens) - 1)))
        right += scores.index(max(scores)) == one.answer
    found = evaluator(rows_17(tmp_path), QUESTIONS).evaluate(Bigrams(), when="after", step=9)
    assert found.accuracy == right / 3


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_a_model_that_knows_the_answer_is_right(tmp_path: Path, wanted: int) -> None:
    model = Bigrams()
    choices = ("x", "y", "z")
    space, token = (WORDS.encode([text])[0][0] for text in (" ", choices[wanted]))
    with torch.no_grad():
        model.table[space, token] += 50
    for answer in range(3):
        one = evaluator(rows_17(tmp_path), [Question("which", choices, answer)])
        assert one.evaluate(model, when="after", step=1).accuracy == float(answer == wanted)


def test_the_event_says_all_of_it(tmp_path: Path) -> None:
    event = evaluator(rows_17(tmp_path)).evaluate(Bigrams(), when="before", step=0).event()
    assert (event["event"], event["when"], event["step"]) == ("eval", "before", 0)
    assert (event["accuracy"], event["num_questions"]) == (None, 0)
    assert set(event) == {"event", *Evaluation.__dataclass_fields__}


def test_a_loss_beyond_all_numbers_still_is_json(tmp_path: Path) -> None:
    model = Bigrams()
    with torch.no_grad():
        model.table.mul_(1e4)
    found = evaluator(rows_17(tmp_path)).evaluate(model, when="before", step=0)
    assert found.loss > 700
    assert math.isfinite(found.perplexity)


def test_questions_are_read(tmp_path: Path) -> None:
    rows: list[Any] = [
        {"question": "a?", "choices": ["x", "y"], "answer": 1},
        "",
        {"question": "b?", "choices": ["x", "y"], "answer": "x", "source": "other keys are left alone"},
    ]
    found = read_questions(str(write(tmp_path / "q.jsonl", rows)), WORDS, 32)
    assert found == [Question("a?", ("x", "y"), 1), Question("b?", ("x", "y"), 0)]


def test_questions_that_are_wrong_are_said_together(tmp_path: Path) -> None:
    good: dict[str, object] = {"question": "a?", "choices": ["x", "y"], "answer": 0}
    rows: list[Any] = [
        "{",
        {**good, "question": " "},
        {**good, "choices": ["x"]},
        {**good, "choices": ["x", ""]},
        {**good, "choices": ["x", "x"]},
        {**good, "answer": 2},
        {**good, "answer": "z"},
        {**good, "answer": True},
        {**good, "question": "a" * 40},
        good,
    ]
    path = write(tmp_path / "q.jsonl", rows)
    with pytest.raises(UsageError) as caught:
        read_questions(str(path), WORDS, 32)
    lines = str(caught.value).splitlines()
    starts = [
        "found no JSON in UTF-8 (",
        "question: found no text; ",
        "choices: found no list of at least two texts; ",
        "choices: found no list of at least two texts; ",
        "choices: found one twice; ",
        "answer: found 2; allowed: one of choices, or its number from 0 to 1",
        "answer: found 'z'; ",
        "answer: found True; ",
        "found 42 tokens with its longest choice; allowed: 33, ",
    ]
    assert len(lines) == len(starts)
    for number, (line, start) in enumerate(zip(lines, starts, strict=True), 1):
        assert line.startswith(f"evaluate.questions {path} row {number}: {start}")


def test_a_file_without_questions_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^evaluate.questions: cannot read .*q.jsonl: No such file"):
        read_questions(str(tmp_path / "q.jsonl"), WORDS, 32)
    with pytest.raises(UsageError, match=r"^evaluate.questions .*q.jsonl: found no rows; "):
        read_questions(str(write(tmp_path / "q.jsonl", [])), WORDS, 32)
    assert EvaluateConfig(questions="/a.jsonl").problems() == EvaluateConfig().problems() == []
    assert (
        EvaluateConfig(questions="a.jsonl")
        .problems()[0]
        .startswith("evaluate.questions: found 'a.jsonl'; allowed: an absolute")
    )


def test_questions_about_synthetic_tokens_are_refused(tmp_path: Path) -> None:
    one = evaluator(rows_17(tmp_path), QUESTIONS)
    without = Evaluator(
        held_out=one.held_out,
        questions=QUESTIONS,
        words=None,
        micro_batch=2,
        rank=0,
        world_size=1,
        device=torch.device("cpu"),
    )
    with pytest.raises(UsageError, match=r"^evaluate.questions: found a file, but the data have no tokenizer"):
        without.evaluate(Bigrams(), when="before", step=0)


def test_the_sources_of_this_module_differ(tmp_path: Path) -> None:
    """What the tests above rest on: sequences that are not full."""
    batch = rows_17(tmp_path).batch(range(17))
    assert len({int((row != IGNORED).sum()) for row in batch.labels}) > 5
