"""Parts of messages: the nearest known word, the first line, long texts in part."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def bounded(text: str, most: int = 2_000) -> str:
    """Pure: a text of at most that many characters, and how many it had.

    What a server reports may be as long as a trigger of any user likes: it is stored as the error
    of a node, printed by ``status``, and sent by ``notify``.
    """
    return text if len(text) <= most else f"{text[:most]}… (of {len(text):,} characters)"


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """The hint for a word that is none of these: the nearest of them, else ``otherwise``."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean {close[0]}?" if close else otherwise


def first_line(text: str) -> str:
    """The first non-empty line; libpq writes one line per address tried."""
    for line in text.splitlines():
        if line.strip():
            return line.strip()
    return ""
