"""Result of a shell statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Result:
    """A table, text lines, or both.

    columns -- empty when there is no table; end -- the session is over.
    """

    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    lines: Sequence[str] = field(default=())
    end: bool = False
