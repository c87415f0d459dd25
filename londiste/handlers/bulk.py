"""``bulk``: the family's handler for tables that change in large amounts.

Here every table is written so: the events of a batch are folded to one row per key, and written as
sets.  So the handler does what the default one does, and its methods are one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from londiste.errors import BadOption
from londiste.handlers.base import Handler, TableRules, option


@dataclass(frozen=True)
class Bulk(Handler):
    """As londiste: batches are written as sets of rows anyhow, whatever the method."""

    NAME: ClassVar[str] = "bulk"
    ALIASES: ClassVar[tuple[str, ...]] = ("bulk_loader",)

    method: int = option(
        0,
        help="0, 1 or 2, for settings of other programs; the result is that of 0, and how the rows"
        " are written is decided by their number",
    )
    ignore_truncate: bool = option(
        False, help="a TRUNCATE of the source leaves the rows of this node alone"
    )

    def wants(self) -> TableRules:
        if self.method not in (0, 1, 2):
            raise BadOption(
                f"handler bulk: there is no method {self.method}",
                hint="--handler-arg method=0, or leave it out",
            )
        return TableRules(ignore_truncate=self.ignore_truncate)
