"""A handler as users write them, in a module of their own."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.handlers.own import Handler, TableRules, literal, option


@dataclass(frozen=True)
class Region(Handler):
    """Only the rows of one region."""

    NAME = "region"
    name: str = option(help="the region whose rows are kept")

    def wants(self) -> TableRules:
        """Rows of that region, without their documents."""
        return TableRules(where=f"region = {literal(self.name)}", skip_columns=frozenset({"doc"}))


__londiste_handlers__ = [Region]
