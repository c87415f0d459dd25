"""Hints without the settings file of the call, which tests do not repeat."""

from __future__ import annotations

import re


def plain(printed: str) -> str:
    """What a command printed, with ``londiste X`` instead of ``londiste -c FILE X``."""
    return re.sub(r"\blondiste -c \S+ ", "londiste ", printed)
