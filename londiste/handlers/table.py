"""Default handler ``londiste``: copies and applies everything; ``bulk`` of Londiste 3 equals it.

Every table is written as net changes per key, in sets, so the methods of ``bulk`` do not differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from londiste.errors import BadOption
from londiste.handlers.base import Handler, TableRules, option


@dataclass(frozen=True)
class Table(Handler):
    """Copies the rows and applies every event; the default handler."""

    NAME: ClassVar[str] = "londiste"
    ALIASES: ClassVar[tuple[str, ...]] = ("default",)

    ignore_truncate: bool = option(False, help="ignore TRUNCATE events on this node")

    def wants(self) -> TableRules:
        return TableRules(ignore_truncate=self.ignore_truncate)


@dataclass(frozen=True)
class Bulk(Handler):
    """Same as londiste, which writes batches as sets of rows; the method has no effect."""

    NAME: ClassVar[str] = "bulk"
    ALIASES: ClassVar[tuple[str, ...]] = ("bulk_loader",)

    method: int = option(0, help="0, 1 or 2, for compatibility; no effect")
    ignore_truncate: bool = option(False, help="ignore TRUNCATE events on this node")

    def wants(self) -> TableRules:
        if self.method not in (0, 1, 2):
            raise BadOption(
                f"handler bulk: unknown method {self.method}",
                hint="use --handler-arg method=0, or omit it",
            )
        return TableRules(ignore_truncate=self.ignore_truncate)
