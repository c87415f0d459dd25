"""Default handler ``londiste``: copies and applies everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from londiste.handlers.base import Handler, TableRules, option


@dataclass(frozen=True)
class Table(Handler):
    """Copies the rows and applies every event; the default handler."""

    NAME: ClassVar[str] = "londiste"
    ALIASES: ClassVar[tuple[str, ...]] = ("default",)

    ignore_truncate: bool = option(False, help="ignore TRUNCATE events on this node")

    def wants(self) -> TableRules:
        return TableRules(ignore_truncate=self.ignore_truncate)
