"""Kinds of events by their type: messages of the cascade, TRUNCATE and row changes.

Events of other types belong to applications.
"""

from __future__ import annotations

import functools

from londiste.changes import jsonrow
from londiste.changes.types import Malformed


def is_message(kind: str | None) -> bool:
    """Whether events of this type are messages of the cascade; a script is one too."""
    return kind is not None and (kind == "EXECUTE" or kind.startswith(("pgq.", "londiste.")))


def is_truncate(kind: str | None) -> bool:
    """Whether events of this type empty their table."""
    if kind == "R":
        return True
    try:
        return kind is not None and kind[:1] == "{" and jsonrow.header(kind).op is None
    except Malformed:
        return False


@functools.lru_cache(maxsize=4096)
def is_change(kind: str | None) -> bool:
    """Whether an event of this type is a row change of one of the triggers."""
    if kind is None or is_message(kind):
        return False
    if kind.startswith("{"):
        return '"op"' in kind
    return is_truncate(kind) or kind in {"I", "U", "D"} or kind[:2] in {"I:", "U:", "D:"}
