"""What the plan decides, and what it expects of the decision; both as JSON, since a plan is kept beside the checkpoints."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, cast, get_args

from ..errors import TrainingError

Strategy: TypeAlias = Literal["hsdp", "fsdp", "unsharded-accumulation"]
"""hsdp: sharded inside a row of the mesh, replicated across rows. fsdp: sharded over all ranks. unsharded-accumulation: sharded likewise,
but the weights stay gathered and the gradients unreduced from the first micro-batch of a step to its last."""
ActivationCheckpoint: TypeAlias = Literal["none", "selective", "full"]
"""none keeps all activations; selective keeps the results of matrix products and attention; full keeps each block's input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One summand of a prediction, with how it comes about."""

    name: str
    value: float
    """Seconds of one optimizer step, or bytes of one rank."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a plan should cost. The terms add up: `time` to `step_seconds`, `memory` to `memory_bytes`."""

    step_seconds: float
    tokens_per_second: float
    """Of all ranks together."""
    mfu: float | None
    """Model FLOPs, recomputation not counted, over the card's dense bf16 peak; None where there is no datasheet, as on a CPU."""
    gemm_fraction: float
    """The same FLOPs over the GEMM rate: the part of what the card really can do."""
    memory_bytes: int
    """Peak of one rank."""
    memory_limit: int
    """Bytes that one rank has."""
    network_bytes: int
    """Bytes that leave one node in one optimizer step; as many come in."""
    network_seconds: float
    """What these take, hidden or not."""
    time: tuple[Term, ...]
    memory: tuple[Term, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The layout of a job. micro_batch * accumulation * world_size * sequence length is the global batch, which is the user's."""

    strategy: Strategy
    dp_replicate: int
    dp_shard: int
    micro_batch: int
    """Sequences of one rank in one micro-batch."""
    accumulation: int
    """Micro-batches of one optimizer step."""
    activation_checkpoint: ActivationCheckpoint
    reshard_after_forward: bool
    prefetch: int
    """Blocks that are gathered ahead in the forward pass; 0 leaves the order to FSDP."""
    prediction: Prediction | None = None

    @property
    def world_size(self) -> int:
        """Return the number of ranks."""
        return self.dp_replicate * self.dp_shard

    @property
    def sequences(self) -> int:
        """Return the sequences of one optimizer step, of all ranks."""
        return self.micro_batch * self.accumulation * self.world_size

    @property
    def key(self) -> str:
        """Return the decision in one word, the same in every process: what is remembered of a layout hangs on it."""
        reshard = "reshard" if self.reshard_after_forward else "keep"
        return (
            f"{self.strategy}/{self.dp_replicate}x{self.dp_shard}/{self.micro_batch}x{self.accumulation}"
            f"/{self.activation_checkpoint}/{reshard}/prefetch{self.prefetch}"
        )

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> "Plan":
        """Read what `to_json` wrote.

        Raises:
            TrainingError: what stands there is no plan; the line names the field.
        """
        found = _Fields(value, "plan")
        prediction = found.get("prediction")
        return cls(
            strategy=cast(Strategy, found.choice("strategy", get_args(Strategy))),
            dp_replicate=found.whole("dp_replicate", 1),
            dp_shard=found.whole("dp_shard", 1),
            micro_batch=found.whole("micro_batch", 1),
            accumulation=found.whole("accumulation", 1),
            activation_checkpoint=cast(
                ActivationCheckpoint, found.choice("activation_checkpoint", get_args(ActivationCheckpoint))
            ),
            reshard_after_forward=found.truth("reshard_after_forward"),
            prefetch=found.whole("prefetch", 0),
            prediction=None if prediction is None else _prediction(_Fields(prediction, "plan.prediction")),
        )


def _prediction(found: "_Fields") -> Prediction:
    return Prediction(
        step_seconds=found.number("step_seconds"),
        tokens_per_second=found.number("tokens_per_second"),
        mfu=None if found.get("mfu") is None else found.number("mfu"),
        gemm_fraction=found.number("gemm_fraction"),
        memory_bytes=found.whole("memory_bytes", 0),
        memory_limit=found.whole("memory_limit", 0),
        network_bytes=found.whole("network_bytes", 0),
        network_seconds=found.number("network_seconds"),
        time=found.terms("time"),
        memory=found.terms("memory"),
    )


class _Fields:
    """A JSON object that says which of its fields is wrong."""

    def __init__(self, value: object, name: str) -> None:
        self._name = name
        if not isinstance(value, Mapping):
            raise TrainingError(f"{name}: found {value!r}; allowed: a JSON object; remove it, and a plan is made anew")
        self._value = cast(Mapping[str, object], value)

    def get(self, key: str) -> object:
        return self._value.get(key)

    def _wrong(self, key: str, allowed: str) -> TrainingError:
        return TrainingError(
            f"{self._name}.{key}: found {self.get(key)!r}; allowed: {allowed}; remove the stored plan, and one is made anew"
        )

    def whole(self, key: str, least: int) -> int:
        value = self.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        raise self._wrong(key, f"a whole number of at least {least}")

    def number(self, key: str) -> float:
        value = self.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise self._wrong(key, "a number")

    def truth(self, key: str) -> bool:
        value = self.get(key)
        if isinstance(value, bool):
            return value
        raise self._wrong(key, "true or false")

    def choice(self, key: str, allowed: Sequence[str]) -> str:
        value = self.get(key)
        if isinstance(value, str) and value in allowed:
            return value
        raise self._wrong(key, " or ".join(allowed))

    def terms(self, key: str) -> tuple[Term, ...]:
        value = self.get(key)
        if not isinstance(value, list | tuple):
            raise self._wrong(key, "a list of terms")
        found = [_Fields(one, f"{self._name}.{key}") for one in cast(Sequence[object], value)]
        return tuple(Term(name=one.text("name"), value=one.number("value"), why=one.text("why")) for one in found)

    def text(self, key: str) -> str:
        value = self.get(key)
        if isinstance(value, str):
            return value
        raise self._wrong(key, "a text")
