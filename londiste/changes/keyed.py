"""Keyed event types, by which rows are used without decoding.

The native capture adds to ``ev_type``, besides operation, table and key, a digest of the image's
columns.  So all events of one type have the same columns, and one image shows those of all; the key
of each row is in ``ev_extra3`` (docs/reference/events.md).
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from londiste.changes import jsonrow
from londiste.changes.types import Malformed, Op


class KeyedType(NamedTuple):
    """The parsed type of such an event.

    table -- ``schema.name``, not quoted.
    key -- names of the key columns, empty for a table without a key.
    row -- digest of the image's columns.
    state -- the event has the current state of the key: INSERT, the row exists exactly so; DELETE,
        there is no such row.  Otherwise it is a change.
    pack -- many rows, one to a line, in ``ev_data`` and in ``ev_extra3``.
    """

    op: Op
    table: str
    key: tuple[str, ...]
    row: str
    state: bool
    pack: bool


@functools.lru_cache(maxsize=4096)
def read_type(text: str | None) -> KeyedType | None:
    """Parses the type; None for every other form, which ``decode_all`` reads."""
    if text is None or not text.startswith("{") or len(text) > jsonrow.MAX_TYPE_LENGTH:
        return None
    try:
        what = jsonrow.header(text)
    except Malformed:
        return None
    if what.op is None or what.row is None:
        return None
    return KeyedType(what.op, what.table, what.key, what.row, what.state, what.pack)


def columns_digest(names: Iterable[str]) -> str:
    """The digest of an image's columns, in their order, as ``row`` has it."""
    return hashlib.md5(",".join(names).encode(), usedforsecurity=False).hexdigest()[:8]
