"""What a model has learned: loss on held-out sequences, and answers to multiple-choice questions."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import json
import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Protocol, cast

import numpy as np
import torch
import torch.distributed as dist

from .data.batch import Batch
from .data.sequences import COUNTS, STARTS, Sequences, batch_of
from .data.tokenizer import Words
from .errors import UsageError

When = Literal["before", "after"]


class LossModule(Protocol):
    """A model that computes its own loss."""

    def __call__(
        self, input_ids: torch.Tensor, position_ids: torch.Tensor, labels: torch.Tensor, /
    ) -> tuple[torch.Tensor, torch.Tensor | int]:
        """Return the sum of the losses in nats, and how many labels counted."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The event `eval`: a model at one moment."""

    when: When
    step: int
    loss: float
    """Mean over the held-out tokens, in nats."""
    perplexity: float
    num_tokens: int
    num_sequences: int
    accuracy: float | None
    """Share of the questions whose right choice is the most likely one; None: none were asked."""
    num_questions: int

    def event(self) -> dict[str, object]:
        """Return what is reported."""
        return {"event": "eval", **asdict(self)}


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its choices; `answer` is the number of the right one."""

    question: str
    choices: tuple[str, ...]
    answer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """Evaluate one model on all ranks together. Every rank makes it with the same data and calls it at the same time.

    All ranks run the model equally often, for a sharded model is gathered by all: whoever has nothing left runs it on sequences of
    which nothing counts. All batches have one shape, so a compiled model is not compiled again.
    """

    held_out: Sequences
    questions: Sequence[Question]
    words: Words | None
    micro_batch: int
    rank: int
    world_size: int
    device: torch.device
    group: dist.ProcessGroup | None = None
    """Where sums are made; None: the default one. Unused with one rank."""

    def evaluate(self, module: torch.nn.Module, *, when: When, step: int) -> Evaluation:
        """Return the same values on every rank: sums over all tokens, so neither ranks nor batches weigh more than others."""
        with _evaluating(module):
            loss_sum, num_tokens = self._held_out(cast(LossModule, module))
            accuracy = self._accuracy(cast(LossModule, module)) if self.questions else None
        loss = loss_sum / num_tokens
        return Evaluation(
            when=when,
            step=step,
            loss=loss,
            # Beyond this it is no number that JSON has.
            perplexity=math.exp(min(loss, 700.0)),
            num_tokens=num_tokens,
            num_sequences=len(self.held_out),
            accuracy=accuracy,
            num_questions=len(self.questions),
        )

    def _held_out(self, module: LossModule) -> tuple[float, int]:
        total = torch.zeros(2, dtype=torch.float64)
        for first in range(0, len(self.held_out), self.world_size * self.micro_batch):
            batch = self._share(first + self.rank * self.micro_batch)
            total[0] += self._loss(module, batch)
            total[1] += batch.num_tokens
        loss_sum, num_tokens = cast(list[float], self._sum(total).tolist())
        return loss_sum, int(num_tokens)

    def _share(self, first: int) -> Batch:
        """Return one batch; sequences after the last are the first one again, of which nothing counts."""
        numbers = range(first, min(first + self.micro_batch, len(self.held_out)))
        filled = self.held_out.batch([*numbers, *[0] * (self.micro_batch - len(numbers))])
        return filled.counting(len(numbers))

    def _accuracy(self, module: LossModule) -> float:
        words = self.words
        if words is None:
            raise UsageError(
                "evaluate.questions: found a file, but the data have no tokenizer; allowed: none; leave it out"
            )
        asked = [(number, choice) for number, one in enumerate(self.questions) for choice in range(len(one.choices))]
        scores = torch.zeros(len(self.questions), max(len(one.choices) for one in self.questions), dtype=torch.float64)
        length = self.held_out.sequence_length
        for first in range(0, len(asked), self.world_size):
            mine = first + self.rank
            number, choice = asked[mine] if mine < len(asked) else asked[0]
            batch = _spoken(self.questions[number], choice, words, length)
            if mine < len(asked):
                scores[number, choice] = -self._loss(module, batch)
            else:
                self._loss(module, batch.counting(0))
        scores = self._sum(scores)
        right = 0
        for number, one in enumerate(self.questions):
            best = int(scores[number, : len(one.choices)].argmax())
            right += best == one.answer
        return right / len(self.questions)

    def _loss(self, module: LossModule, batch: Batch) -> float:
        on_device = batch.to(self.device)
        loss_sum, _ = module(on_device.input_ids, on_device.position_ids, on_device.labels)
        return float(loss_sum)

    def _sum(self, values: torch.Tensor) -> torch.Tensor:
        if self.world_size == 1:
            return values
        # NCCL takes nothing from the host; gloo, everything.
        on_device = values.to(self.device)
        dist.all_reduce(on_device, group=self.group)
        return on_device.cpu()


def read_questions(path: str, words: Words, sequence_length: int) -> list[Question]:
    """Read a file of multiple-choice questions.

    Raises:
        UsageError: the file cannot be read, or one line for each row that is wrong or longer than a sequence.
    """
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"evaluate.questions: cannot read {path}: {error.strerror}; check the path") from error
    found: list[Question] = []
    problems: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        one = _question(line)
        if isinstance(one, Question):
            longest = max(len(_tokens(one, choice, words)[0]) for choice in range(len(one.choices)))
            if longest <= sequence_length + 1:
                found.append(one)
                continue
            one = f"found {longest} tokens with its longest choice; allowed: {sequence_length + 1}, one more than data.sequence_length"
        problems.append(f"evaluate.questions {path} row {number}: {one}")
    if not found and not problems:
        problems.append(f"evaluate.questions {path}: found no rows; allowed: at least one; leave it out or fill it")
    if problems:
        raise UsageError("\n".join(problems))
    return found


def _question(line: bytes) -> Question | str:
    """Return what a line asks, or what is wrong with it."""
    try:
        parsed = json.loads(line.decode())
    except ValueError as error:
        return f"found no JSON in UTF-8 ({error}); allowed: one object a line"
    row = cast(dict[str, object], parsed) if isinstance(parsed, dict) else {}
    question, choices, answer = row.get("question"), row.get("choices"), row.get("answer")
    if not isinstance(question, str) or not question.strip():
        return "question: found no text; allowed: a text"
    texts = cast(list[object], choices) if isinstance(choices, list) else []
    if len(texts) < 2 or not all(isinstance(text, str) and text.strip() for text in texts):
        return "choices: found no list of at least two texts; allowed: such a list"
    options = tuple(str(text) for text in texts)
    if len(set(options)) < len(options):
        return "choices: found one twice; allowed: different ones"
    if isinstance(answer, str) and answer in options:
        return Question(question, options, options.index(answer))
    if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < len(options):
        return Question(question, options, answer)
    return f"answer: found {answer!r}; allowed: one of choices, or its number from 0 to {len(options) - 1}"


def _tokens(one: Question, choice: int, words: Words) -> tuple[list[int], list[int]]:
    """Return the tokens of a question with one choice, and at which character each begins.

    Together, not apart: a tokenizer puts the space between them where it was in training.
    """
    between = "" if one.question[-1].isspace() else " "
    ((ids, begins),) = words.encode_with_offsets([one.question + between + one.choices[choice]])
    return ids, begins


def _spoken(one: Question, choice: int, words: Words, sequence_length: int) -> Batch:
    """Return one sequence of which the choice alone counts."""
    ids, begins = _tokens(one, choice, words)
    tokens = np.zeros((1, sequence_length + 1), dtype=np.int32)
    flags = np.zeros((1, sequence_length + 1), dtype=np.uint8)
    tokens[0, : len(ids)] = ids
    # The space before a choice may be the beginning of its first token.
    flags[0, : len(ids)] = np.where(np.array(begins) >= len(one.question), COUNTS, 0)
    flags[0, 0] = STARTS
    if len(ids) <= sequence_length:
        flags[0, len(ids)] |= STARTS
    return batch_of(tokens, flags)


@contextmanager
def _evaluating(module: torch.nn.Module) -> Generator[None]:
    """Run a model without gradients and without dropout; leave it as it was."""
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        module.train(training)
