"""The texts of a row, and what can be wrong with them."""

from .rows import Bad


def text_in(row: dict[str, object], column: str) -> str | Bad:
    """Return the text of a column, or what is wrong with it."""
    if column not in row:
        return Bad(
            f"found no {column} (it has {', '.join(row) or 'nothing'}); allowed: a text in {column}; set data.text_column"
        )
    return checked(row[column], column)


def checked(text: object, column: str) -> str | Bad:
    """Return a text that can be tokenised, or what is wrong with it."""
    if not isinstance(text, str):
        return Bad(
            f"{column}: found {'nothing' if text is None else type(text).__name__}; allowed: a text; repair the row"
        )
    if not text.strip():
        return Bad(f"{column}: found an empty text; allowed: at least one character; remove the row")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return Bad(f"{column}: found half a surrogate pair at {error.start}; allowed: UTF-8; repair the row")
    return text
