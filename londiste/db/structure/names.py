"""Names of objects in the target: derived from the table's new name, without conflicts."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from londiste.db.names import MAX_IDENTIFIER_BYTES, TableName, quote


def follow(name: str, old: str, new: str) -> str:
    """The name of an object of table ``old`` when the table is named ``new``.

    The old table name in it is replaced by the new one; at most 63 bytes.
    """
    return cut(name.replace(old, new)) if old != new and old in name else name


def free(name: str, taken: Collection[str]) -> str:
    """The name, or if it is in use, the first free one of name_1, name_2 …."""
    if name not in taken:
        return name
    number = 1
    while (candidate := cut(name, f"_{number}")) in taken:
        number += 1
    return candidate


def cut(name: str, end: str = "") -> str:
    """The name and what ends it, as many characters of it as PostgreSQL keeps."""
    room = MAX_IDENTIFIER_BYTES - len(end.encode())
    return name.encode()[:room].decode(errors="ignore") + end


def plain(identifier: str) -> Iterator[str]:
    """The forms in which the server writes an identifier: in quotes, or without."""
    yield quote(identifier)
    yield identifier


def replace_table(text: str, word: str, old: TableName, new: TableName) -> str | None:
    """The text with another table after the first ``word`` outside of quotes.

    None if another table is there: then the text is not understood.
    """
    at = after_word(text, word)
    while at is not None:
        for schema in plain(old.schema):
            for name in plain(old.name):
                form = f"{schema}.{name}"
                end = at + len(form)
                if text.startswith(form, at) and text[end : end + 1] in ("", " ", "(", "\n"):
                    return text[:at] + new.quoted + text[end:]
        at = after_word(text, word, at)
    return None


def mentions(text: str, table: TableName) -> bool:
    """Whether a definition names a table somewhere."""
    return any(
        f"{schema}.{name}" in text for schema in plain(table.schema) for name in plain(table.name)
    )


def after_word(text: str, word: str, start: int = 0) -> int | None:
    """Where the text continues after ``word`` and a blank, outside of quotes; None: nowhere."""
    quoted = ""
    for at, letter in enumerate(text):
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "\"'":
            quoted = letter
        elif at >= start and text.startswith(f" {word} ", at):
            return at + len(word) + 2
    return None


def replace_name(text: str, word: str, old: str, new: str) -> str:
    """The text with another identifier after the first ``word``, which is a keyword."""
    at = after_word(text, word)
    if at is not None:
        for form in plain(old):
            if text.startswith(f"{form} ", at) or text.startswith(f"{form}\n", at):
                return text[:at] + quote(new) + text[at + len(form) :]
    return text
