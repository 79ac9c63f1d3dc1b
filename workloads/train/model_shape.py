"""The numbers of a decoder-only language model that cost and memory follow from. Pure: no torch, no transformers."""

from collections.abc import Mapping
from dataclasses import dataclass

from .errors import UsageError

FAMILIES = ("qwen2", "llama")
"""Values of `model_type` that this program trains: both are pre-norm decoders with rotary positions and a gated MLP."""


_TINY: dict[str, object] = {
    "vocab_size": 320,
    "hidden_size": 96,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "initializer_range": 0.02,
}
BUILT_IN: Mapping[str, Mapping[str, object]] = {
    "tiny-qwen2": {**_TINY, "model_type": "qwen2", "tie_word_embeddings": True},
    "tiny-llama": {**_TINY, "model_type": "llama", "tie_word_embeddings": False},
}
"""Models that come with the program, some hundred thousand weights from a seed: for rehearsals and tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A decoder of `num_layers` blocks: grouped-query attention and an MLP with gate, up and down projections."""

    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    tied: bool
    """Embedding and LM head are one tensor."""

    @property
    def layer_parameters(self) -> int:
        """Return the parameters of one block: four projections of attention, three of the MLP, two norms; no biases."""
        query, key_value = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        attention = self.hidden_size * (2 * query + 2 * key_value)
        return attention + 3 * self.hidden_size * self.intermediate_size + 2 * self.hidden_size

    @property
    def embedding_parameters(self) -> int:
        """Return the parameters of the embedding, which are the head's too when `tied`."""
        return self.vocab_size * self.hidden_size

    @property
    def num_parameters(self) -> int:
        """Return all parameters, a tied head counted once; biases, under 0.01 %, are left out."""
        return self.num_layers * self.layer_parameters + self.hidden_size + self.embedding_parameters * (2 - self.tied)


def shape_of(config: object, key: str = "model") -> ModelShape:
    """Return the shape that a Hugging Face configuration describes: a `PretrainedConfig`, or the mapping of a config.json.

    `key` is how the user named the model, for the error.

    Raises:
        UsageError: with everything in the configuration that is not of a model that this program trains, one a line.
    """
    problems: list[str] = []

    def found(name: str) -> object:
        return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    def number(name: str, default: int = 0) -> int:
        value = found(name)
        if value is None and default:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        problems.append(f"{key}: {name} in its configuration: found {value!r}; allowed: a whole number of at least 1")
        return 1

    family = found("model_type")
    if family not in FAMILIES:
        raise UsageError(
            f"{key}: model_type in its configuration: found {family!r}; allowed: {' or '.join(FAMILIES)}; take another model"
        )
    hidden, heads = number("hidden_size"), number("num_attention_heads")
    shape = ModelShape(
        num_layers=number("num_hidden_layers"),
        hidden_size=hidden,
        num_heads=heads,
        # Older files leave out what follows from the rest.
        num_kv_heads=number("num_key_value_heads", heads),
        head_dim=number("head_dim", max(1, hidden // heads)),
        intermediate_size=number("intermediate_size"),
        vocab_size=number("vocab_size"),
        tied=bool(found("tie_word_embeddings")),
    )
    if shape.num_heads % shape.num_kv_heads:
        problems.append(
            f"{key}: num_key_value_heads in its configuration: found {shape.num_kv_heads}; "
            f"allowed: a divisor of num_attention_heads, {shape.num_heads}"
        )
    if found("use_sliding_window") is True:
        problems.append(
            f"{key}: use_sliding_window in its configuration: found True; allowed: false; attention here sees all"
        )
    if problems:
        raise UsageError("\n".join(problems))
    return shape
