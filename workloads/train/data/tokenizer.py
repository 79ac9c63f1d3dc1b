"""A tokenizer in a form that another process can take: its own JSON, without transformers."""

# tokenizers does not type its functions.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol, cast

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from ..errors import UsageError

BYTES = "bytes"
"""The name of the byte-level tokenizer."""
BYTES_END = "<|endoftext|>"


class _Encoding(Protocol):
    ids: list[int]
    offsets: list[tuple[int, int]]


@dataclass(frozen=True)
class Words:
    """A fast tokenizer, and what it is asked for here."""

    name: str
    serialized: str
    """JSON, as the library tokenizers writes it."""
    vocab_size: int
    """Tokens, those added later included: the least vocabulary of a model that uses it."""
    end: int
    """The token that ends a document."""
    chat_template: str | None = None
    special: tuple[tuple[str, str], ...] = ()
    """Names and texts that a chat template may use, as bos_token."""

    @cached_property
    def fingerprint(self) -> str:
        """Return the sha256 of all that decides which tokens a text becomes."""
        kept = {key: value for key, value in asdict(self).items() if key != "name"}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of documents, each with the tokenizer's own beginning and with the end."""
        encoded = cast(list[_Encoding], _ready(self.serialized).encode_batch_fast(list(texts)))
        found = [encoding.ids for encoding in encoded]
        return [ids if ids and ids[-1] == self.end else [*ids, self.end] for ids in found]

    def encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """Return the tokens of texts, nothing added, and the character of the text at which each begins."""
        found = cast(list[_Encoding], _ready(self.serialized).encode_batch(list(texts), add_special_tokens=False))
        return [(encoding.ids, [first for first, _ in encoding.offsets]) for encoding in found]


def byte_words() -> Words:
    """Return the byte-level tokenizer: a token for each byte of UTF-8, and one for the end. It needs no file."""
    made = _byte_tokenizer()
    return Words(BYTES, made.to_str(), made.get_vocab_size(), cast(int, made.token_to_id(BYTES_END)))


def load_words(name: str) -> Words:
    """Load a tokenizer by its folder, its Hugging Face id, or as `bytes`.

    Raises:
        UsageError: there is none, it is not a fast one, or it has no token for the end of a text.
    """
    if name == BYTES:
        return byte_words()
    # Imported here: it takes seconds and torch with it.
    from transformers.models.auto.tokenization_auto import AutoTokenizer

    if name.startswith("/") and not Path(name).is_dir():
        raise UsageError(
            f"data.tokenizer: found {name}, which is no folder; allowed: bytes, a folder or a Hugging Face id; check the path"
        )
    try:
        found = cast(Any, AutoTokenizer).from_pretrained(name)
    except (OSError, ValueError) as error:
        text = " ".join(str(error).split())
        raise UsageError(
            f"data.tokenizer: found {name}, which cannot be loaded: {text}; allowed: bytes, a folder or a Hugging Face id"
        ) from error
    if not found.is_fast:
        raise UsageError(
            f"data.tokenizer: found {name} without tokenizer.json; allowed: a fast tokenizer; save it with save_pretrained of transformers"
        )
    if found.eos_token_id is None:
        raise UsageError(
            f"data.tokenizer: found {name} without an end-of-text token; allowed: one with eos_token; set it in tokenizer_config.json"
        )
    special = cast(dict[str, object], found.special_tokens_map)
    return Words(
        name=name,
        serialized=found.backend_tokenizer.to_str(),
        vocab_size=len(found),
        end=found.eos_token_id,
        chat_template=found.chat_template if isinstance(found.chat_template, str) else None,
        special=tuple(sorted((key, text) for key, text in special.items() if isinstance(text, str))),
    )


def _byte_tokenizer() -> Tokenizer:
    # In the order of the library's alphabet, so the numbers are the same everywhere.
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={character: number for number, character in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(BYTES_END, special=True)])
    return made


@cache
def _ready(serialized: str) -> Tokenizer:
    """Return a tokenizer that is made once in a process: one of 150,000 tokens takes half a second."""
    tokenizer = Tokenizer.from_str(serialized)
    # What was saved for inference: a document is never cut or padded here.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
