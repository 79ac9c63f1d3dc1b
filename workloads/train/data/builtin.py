"""English text that every Python ships: its language reference by topics, and the documentation inside its own modules."""

import ast
import pydoc_data.topics
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

LONGEST = 2000
"""Characters of a document; a topic is cut where a paragraph ends."""
_SHORTEST_DOCSTRING = 200


@cache
def documents() -> tuple[str, ...]:
    """Return about 1 MB of documents, always in the same order for the same Python."""
    texts = [text for _, text in sorted(pydoc_data.topics.topics.items())]
    texts.extend(_of_modules())
    return tuple(piece for text in texts for piece in _pieces(text))


def _of_modules() -> Iterator[str]:
    """Give the docstrings of the modules at the top of the standard library, a text for each module."""
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        tree = ast.parse(path.read_bytes())
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
        found = [text for text in map(ast.get_docstring, nodes) if text and len(text) >= _SHORTEST_DOCSTRING]
        if found:
            yield "\n\n".join(found)


def _pieces(text: str) -> Iterator[str]:
    piece = ""
    for paragraph in text.strip().split("\n\n"):
        if piece and len(piece) + len(paragraph) > LONGEST:
            yield piece
            piece = ""
        piece = f"{piece}\n\n{paragraph}" if piece else paragraph
    if piece:
        yield piece
