"""Tokenizers: one of bytes that needs no file, and those of transformers."""

# tokenizers does not type its functions.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.train.data.data_support import WORDS, bytes_of
from workloads.train.data.tokenizer import byte_words, load_words
from workloads.train.errors import UsageError

TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def saved(folder: Path, **settings: Any) -> Path:
    """Save a byte-level BPE, trained in a moment, as transformers saves one."""
    trained: Any = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<end>"], initial_alphabet=alphabet)
    trained.train_from_iterator(["the cat sat on the mat and the dog ran"] * 20, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    trained.save(str(folder / "tokenizer.json"))
    values = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>", **settings}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({key: one for key, one in values.items() if one is not None})
    )
    return folder


@pytest.mark.parametrize("text", ["plain", "  two  spaces\n\ttab", "Grüße, 世界 🙂", "\x00\x7f"])
def test_a_byte_is_a_token_and_the_end_is_one_more(text: str) -> None:
    (tokens,) = WORDS.encode([text])
    assert len(tokens) == len(text.encode()) + 1
    assert (tokens[-1], max(tokens)) == (WORDS.end, 256)
    assert bytes_of(tokens) == f"{text}\n".encode()
    assert WORDS.vocab_size == 257


def test_its_numbers_are_the_same_everywhere() -> None:
    assert byte_words().encode(["Az\n"])[0] == [32, 89, 198, 256]
    assert byte_words().fingerprint == WORDS.fingerprint


def test_offsets_are_characters_of_the_text() -> None:
    ((ids, begins),) = WORDS.encode_with_offsets(["aé b"])
    assert len(ids) == 5
    assert begins == [0, 1, 1, 2, 3]


def test_a_saved_tokenizer_is_taken_as_it_is(tmp_path: Path) -> None:
    words = load_words(str(saved(tmp_path / "a", chat_template=TEMPLATE)))
    assert 257 < words.vocab_size <= 300
    assert words.chat_template == TEMPLATE
    assert words.special == (("eos_token", "<end>"),)
    (tokens,) = words.encode(["the cat"])
    assert tokens[-1] == words.end
    assert len(tokens) < 8, "words of more than one byte"
    other = pickle.loads(pickle.dumps(words))  # noqa: S301
    assert other.encode(["the cat"]) == [tokens]
    assert words.fingerprint != load_words(str(saved(tmp_path / "b"))).fingerprint


def test_what_was_saved_for_inference_cuts_no_document(tmp_path: Path) -> None:
    folder = saved(tmp_path / "a")
    found: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
    found.enable_truncation(4)
    found.enable_padding(length=8)
    found.save(str(folder / "tokenizer.json"))
    assert len(load_words(str(folder)).encode(["q" * 20])[0]) == 21


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda path: path / "nowhere", "which is no folder; allowed: bytes, a folder or a Hugging Face id"),
        (lambda path: path, "which cannot be loaded: "),
        (lambda path: saved(path, eos_token=None), "without an end-of-text token; allowed: one with eos_token"),
    ],
)
def test_a_tokenizer_that_cannot_be_used_is_one_line(tmp_path: Path, prepare: Any, words: str) -> None:
    name = str(prepare(tmp_path))
    with pytest.raises(UsageError) as caught:
        load_words(name)
    assert str(caught.value).startswith(f"data.tokenizer: found {name}")
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
