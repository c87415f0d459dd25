"""The handler that tables have when none is named: everything is copied and applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from londiste.handlers.base import Handler, TableRules, option


@dataclass(frozen=True)
class Table(Handler):
    """Copies the rows and applies every event; used when no handler is named."""

    NAME: ClassVar[str] = "londiste"
    ALIASES: ClassVar[tuple[str, ...]] = ("default",)

    ignore_truncate: bool = option(
        False, help="a TRUNCATE of the source leaves the rows of this node alone"
    )

    def wants(self) -> TableRules:
        return TableRules(ignore_truncate=self.ignore_truncate)
