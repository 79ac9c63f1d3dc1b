"""Rows become documents: which tokens they are, which of them count, and what is wrong with them."""

# tokenizers, pyarrow and numpy do not type all of theirs.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false

from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.train.data.data_support import VOCAB, WORDS, bytes_of, texts, write
from tests.train.data.test_tokenizer import TEMPLATE, saved
from workloads.train.data.documents import MOST_PROBLEMS, Documents, Recipe, documents_of
from workloads.train.data.rows import Bad, Unit, units_of
from workloads.train.data.source import list_files
from workloads.train.data.text import checked
from workloads.train.data.tokenizer import Words, load_words


def recipe(**settings: Any) -> Recipe:
    values: dict[str, Any] = {
        "format": "text",
        "text_column": "text",
        "words": WORDS,
        "held_out": 0.0,
        "vocab_size": VOCAB,
    }
    return Recipe(**{**values, **settings})


def made(path: Path, rows: list[Any], how: Recipe) -> Documents:
    (unit,) = units_of(list_files(str(write(path / "a.jsonl", rows))), how.columns)
    return documents_of(unit, how)


def each(found: Documents) -> list[tuple[list[int], list[bool]]]:
    ends = np.cumsum(found.lengths).tolist()
    starts = [0, *ends[:-1]]
    return [
        (found.tokens[start:end].tolist(), found.counts[start:end].tolist())
        for start, end in zip(starts, ends, strict=True)
    ]


def counted(document: tuple[list[int], list[bool]]) -> bytes:
    return bytes_of([token for token, counts in zip(*document, strict=True) if counts])


def test_a_text_is_predicted_whole_with_its_end(tmp_path: Path) -> None:
    found = made(tmp_path, [{"text": "first"}, {"text": "sécond"}], recipe())
    assert found.problems == []
    assert [bytes_of(tokens) for tokens, _ in each(found)] == [b"first\n", "sécond\n".encode()]
    assert [counted(document) for document in each(found)] == [b"irst\n", "écond\n".encode()]


def test_another_column_may_hold_the_text(tmp_path: Path) -> None:
    found = made(tmp_path, [{"body": "x", "text": "y"}], recipe(text_column="body"))
    assert bytes_of(each(found)[0][0]) == b"x\n"


def test_a_prompt_is_not_learned(tmp_path: Path) -> None:
    found = made(tmp_path, [{"prompt": "2 + 2 = ", "response": "4"}], recipe(format="instruction"))
    (document,) = each(found)
    assert bytes_of(document[0]) == b"2 + 2 = 4\n"
    assert counted(document) == b"4\n"


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Words:
    """A tokenizer whose template is as those of the field: each message between marks."""
    return load_words(str(saved(tmp_path_factory.mktemp("chat"), chat_template=TEMPLATE)))


def spoken(words: Words, document: tuple[list[int], list[bool]], *, only_counted: bool) -> str:
    from tokenizers import Tokenizer

    kept = [token for token, counts in zip(*document, strict=True) if counts or not only_counted]
    decoded: Any = cast(Any, Tokenizer.from_str(words.serialized)).decode(kept, skip_special_tokens=False)
    return decoded


def test_of_a_conversation_what_the_assistant_says_is_learned(tmp_path: Path, chat: Words) -> None:
    messages = [
        {"role": "system", "content": "be short"},
        {"role": "user", "content": "the cat?"},
        {"role": "assistant", "content": "sat"},
        {"role": "user", "content": "the dog?"},
        {"role": "assistant", "content": "ran"},
    ]
    (document,) = each(made(tmp_path, [{"messages": messages}], recipe(format="instruction", words=chat)))
    assert spoken(chat, document, only_counted=False) == (
        "<|system|>\nbe short<end>\n<|user|>\nthe cat?<end>\n<|assistant|>\nsat<end>\n"
        "<|user|>\nthe dog?<end>\n<|assistant|>\nran<end>\n"
    )
    assert spoken(chat, document, only_counted=True) == "sat<end>\nran<end>\n"


def test_a_prompt_and_response_go_through_the_template_too(tmp_path: Path, chat: Words) -> None:
    rows = [{"prompt": "the cat?", "response": "sat"}]
    (document,) = each(made(tmp_path, rows, recipe(format="instruction", words=chat)))
    assert spoken(chat, document, only_counted=False) == "<|user|>\nthe cat?<end>\n<|assistant|>\nsat<end>\n"


def test_a_template_that_rewrites_what_was_said_is_refused(tmp_path: Path) -> None:
    """Some drop the reasoning of earlier turns: which tokens were answers could not be told."""
    last = "{{ messages|length }}" + TEMPLATE
    words = load_words(str(saved(tmp_path / "words", chat_template=last)))
    rows = [{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}]
    (line,) = made(tmp_path, rows, recipe(format="instruction", words=words)).problems
    assert "a.jsonl row 1: messages: found a chat template (" in line
    assert "that changes what was said before message 2; allowed: one that only adds; " in line


def test_a_template_that_refuses_is_quoted(tmp_path: Path) -> None:
    words = load_words(str(saved(tmp_path / "words", chat_template="{{ raise_exception('no system role') }}")))
    rows = [{"messages": [{"role": "assistant", "content": "b"}]}]
    (line,) = made(tmp_path, rows, recipe(format="instruction", words=words)).problems
    assert "refuses (no system role)" in line


def test_tokens_made_before_are_taken_as_they_are(tmp_path: Path) -> None:
    rows = [{"input_ids": [1, 2, 3]}, {"input_ids": [4, 5, 6], "loss_mask": [0, 0, 1]}]
    found = made(tmp_path, rows, recipe(format="tokens"))
    assert each(found) == [([1, 2, 3], [False, True, True]), ([4, 5, 6], [False, False, True])]
    path = tmp_path / "p" / "a.parquet"
    path.parent.mkdir()
    cast(Any, parquet).write_table(
        pa.table({"input_ids": [[1, 2, 3], [4, 5, 6]], "loss_mask": [None, [0, 0, 1]]}), path
    )
    (unit,) = units_of(list_files(str(path)), [["input_ids"]])
    assert each(documents_of(unit, recipe(format="tokens"))) == each(found)


BAD: list[tuple[str, Any, str]] = [
    ("text", {"content": "x"}, "found no text (it has content); allowed: a text in text; set data.text_column"),
    ("text", {"text": ""}, "text: found an empty text; allowed: at least one character; remove the row"),
    ("text", {"text": " \n"}, "text: found an empty text; "),
    ("text", {"text": None}, "text: found nothing; allowed: a text; repair the row"),
    ("text", {"text": 3}, "text: found int; allowed: a text; "),
    ("text", '{"text": "a\\ud800"}', "text: found half a surrogate pair at 1; allowed: UTF-8; "),
    ("instruction", {"prompt": "a"}, "found no response (it has prompt); allowed: messages, or prompt and response; "),
    ("instruction", {"prompt": "a", "response": ""}, "response: found an empty text; "),
    ("instruction", {"messages": []}, "messages: found none of assistant; allowed: at least one"),
    ("instruction", {"messages": [{"role": "user", "content": "a"}]}, "messages: found none of assistant; "),
    (
        "instruction",
        {"messages": [{"role": "bot", "content": "a"}]},
        "messages: found the role 'bot'; allowed: system, user",
    ),
    ("instruction", {"messages": [{"role": "user"}]}, "messages of user: found nothing; allowed: a text; "),
    (
        "instruction",
        {"messages": [{"role": "assistant", "content": "a"}]},
        "found messages, but the tokenizer bytes has no chat template; allowed: prompt and response, or ",
    ),
    ("tokens", {"ids": [1, 2]}, "input_ids: found no list of at least two whole numbers; "),
    ("tokens", {"input_ids": [1]}, "input_ids: found no list of at least two whole numbers; "),
    ("tokens", {"input_ids": [1, 2.5]}, "input_ids: found no list of at least two whole numbers; "),
    (
        "tokens",
        {"input_ids": [1, 257]},
        "input_ids: found 257; allowed: 0 to 256, the model's vocabulary; use its tokenizer",
    ),
    ("tokens", {"input_ids": [1, -1]}, "input_ids: found -1; allowed: 0 to 256"),
    ("tokens", {"input_ids": [1, 2], "loss_mask": [1]}, "loss_mask: found something else than a 0 or 1 for each"),
    ("tokens", {"input_ids": [1, 2], "loss_mask": [1, 0]}, "loss_mask: found 0 after the first token everywhere; "),
]


@pytest.mark.parametrize(("kind", "row", "words"), BAD, ids=[str(row) for _, row, _ in BAD])
def test_a_bad_row_is_one_line_with_file_and_row(tmp_path: Path, kind: Any, row: Any, words: str) -> None:
    good = {"text": "a", "prompt": "a", "response": "b", "input_ids": [1, 2]}
    found = made(tmp_path, [good, row, good], recipe(format=kind))
    (line,) = found.problems
    assert line.startswith(f"data {tmp_path}/a.jsonl row 2: {words}")
    assert len(line.splitlines()) == 1


def test_bad_rows_are_named_together_as_far_as_they_can_be_read(tmp_path: Path) -> None:
    found = made(tmp_path, [*texts(300), *[{"text": ""}] * 30], recipe())
    assert len(found.problems) == MOST_PROBLEMS
    assert found.problems[0].startswith(f"data {tmp_path}/a.jsonl row 301: ")
    assert found.problems[-1].endswith("; and 20 rows more after it")
    assert len(found.tokens) == 0


def test_what_is_held_out_depends_on_what_a_row_says_alone(tmp_path: Path) -> None:
    rows = texts(1000)
    how = recipe(held_out=0.1)
    found = made(tmp_path, rows, how)
    share = float(found.held_out.mean())
    assert 0.07 < share < 0.13
    again = made(tmp_path, [*rows[500:], *rows[:500], rows[0]], how)
    assert again.held_out.tolist() == [
        *found.held_out[500:].tolist(),
        *found.held_out[:500].tolist(),
        bool(found.held_out[0]),
    ]
    more = made(tmp_path, rows, recipe(held_out=0.3))
    assert bool((more.held_out | ~found.held_out).all()), "a larger share holds out the same rows and others"


def test_the_text_that_python_ships_is_documents() -> None:
    found = documents_of(Unit(None), recipe())
    assert found.problems == []
    assert len(found.lengths) > 400
    assert len(found.tokens) > 500_000
    assert b"statement" in bytes_of(found.tokens[:20_000].tolist())


def test_a_text_is_checked_before_it_is_tokenised() -> None:
    assert checked("é", "text") == "é"
    assert isinstance(checked("\ud800", "text"), Bad)
