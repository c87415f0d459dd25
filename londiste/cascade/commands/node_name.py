"""Names that new nodes can have: one word of a command, of a list and of a file name."""

from __future__ import annotations

import unicodedata

from londiste.db.names import MAX_IDENTIFIER_BYTES
from londiste.errors import BadOption

#: Besides letters, which may have marks, and digits.
_ALLOWED = "_.-@+:="


def check_name(name: str) -> None:
    """Pure: raises BadOption for a name that no new node can have.

    A node that has such a name already keeps it.
    """
    wrong = next((char for char in name if not _fits(char)), "")
    size = len(name.encode(errors="surrogateescape"))
    if size > MAX_IDENTIFIER_BYTES:
        raise BadOption(
            f"node name is {size} bytes long", hint=f"use at most {MAX_IDENTIFIER_BYTES} bytes"
        )
    if wrong:
        why = f"contains {wrong!r}"
    elif name.startswith("-"):
        why = "begins with -"
    elif not name:
        why = "is empty"
    else:
        return
    raise BadOption(
        f"node name {name!r}: {why}",
        detail="names of nodes are words of commands, of lists with commas and of file names",
        hint=f"use letters, digits and {' '.join(_ALLOWED)} and do not begin with -",
    )


def _fits(char: str) -> bool:
    return char in _ALLOWED or unicodedata.category(char)[0] in "LM" or char.isdecimal()
