"""Instruction rows: what the model reads, and which part of it is its own answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from .rows import Bad
from .text import checked
from .tokenizer import Words

ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation as one text."""

    text: str
    answers: tuple[tuple[int, int], ...]
    """Characters from, and to before, which are the model's."""
    ends: bool
    """Whether the end-of-text token follows; a chat template ends each answer by itself."""


def conversation(row: Mapping[str, object], words: Words) -> Chat | Bad:
    """Return what a row with `messages`, or with `prompt` and `response`, says."""
    if row.get("messages") is not None:
        found = _messages(row["messages"])
        if isinstance(found, Bad):
            return found
        if words.chat_template is None:
            return Bad(
                f"found messages, but the tokenizer {words.name} has no chat template; allowed: prompt and response, or a tokenizer "
                "that has one; set data.tokenizer"
            )
        return _templated(found, words)
    texts: list[str] = []
    for column in ("prompt", "response"):
        if column not in row:
            return Bad(
                f"found no {column} (it has {', '.join(row) or 'nothing'}); allowed: messages, or prompt and response; set data.format"
            )
        text = checked(row[column], column)
        if isinstance(text, Bad):
            return text
        texts.append(text)
    prompt, response = texts
    if words.chat_template is None:
        return Chat(prompt + response, ((len(prompt), len(prompt) + len(response)),), ends=True)
    return _templated([{"role": "user", "content": prompt}, {"role": "assistant", "content": response}], words)


def _messages(value: object) -> list[dict[str, str]] | Bad:
    found: list[dict[str, str]] = []
    items = cast(list[object], value) if isinstance(value, list) else []
    for item in items:
        fields = cast(dict[str, object], item) if isinstance(item, dict) else {}
        role = fields.get("role")
        if role not in ROLES:
            return Bad(f"messages: found the role {role!r}; allowed: {', '.join(ROLES)}; repair the row")
        content = checked(fields.get("content"), f"messages of {role}")
        if isinstance(content, Bad):
            return content
        found.append({"role": str(role), "content": content})
    if not any(message["role"] == "assistant" for message in found):
        return Bad("messages: found none of assistant; allowed: at least one, which is learned; remove the row")
    return found


def _templated(messages: list[dict[str, str]], words: Words) -> Chat | Bad:
    """Render a conversation. An answer is what it adds to the conversation before it, so a template needs no marks for it."""
    try:
        text = _render(messages, words, answering=False)
        answers: list[tuple[int, int]] = []
        for number, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            before = _render(messages[:number], words, answering=True)
            after = _render(messages[: number + 1], words, answering=False)
            if not after.startswith(before) or not text.startswith(after):
                return Bad(
                    f"messages: found a chat template ({words.name}) that changes what was said before message {number + 1}; allowed: "
                    "one that only adds; give this row as several with one answer each"
                )
            answers.append((len(before), len(after)))
    except _template_errors() as error:
        return Bad(
            f"messages: found a conversation that the chat template of {words.name} refuses ({error}); repair the row"
        )
    return Chat(text, tuple(answers), ends=False)


def _render(messages: list[dict[str, str]], words: Words, *, answering: bool) -> str:
    # Imported here: other formats need none of it. The module alone does not load torch.
    from transformers.utils import chat_template_utils

    # Typed for the names that it knows; a template may use any.
    render = cast(Callable[..., tuple[list[str], object]], chat_template_utils.render_jinja_template)  # pyright: ignore[reportUnknownMemberType]
    rendered, _ = render(
        [messages], chat_template=words.chat_template, add_generation_prompt=answering, **dict(words.special)
    )
    return rendered[0]


def _template_errors() -> type[Exception]:
    from jinja2.exceptions import TemplateError

    return TemplateError
