"""What the attributes of a table say that it wants: its handler, its row filter, its columns.

    handler         name(option=value&…)
    where           SQL condition, as it was given
    columns         a,b: only these
    skip_columns    a,b: all but these

Names in the lists are url-encoded, so that a comma in a name is no matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote

from londiste.handlers import registry
from londiste.handlers.base import Wants

HANDLER, WHERE, COLUMNS, SKIP_COLUMNS = "handler", "where", "columns", "skip_columns"


@dataclass(frozen=True)
class Choice:
    """What was asked for in a command.

    handler -- in its stored form, '' for the default.
    """

    handler: str = ""
    where: str = ""
    columns: tuple[str, ...] = ()
    skip_columns: tuple[str, ...] = ()

    def attrs(self) -> dict[str, str]:
        """The attributes that say it."""
        pairs = {
            HANDLER: self.handler,
            WHERE: self.where,
            COLUMNS: _joined(self.columns),
            SKIP_COLUMNS: _joined(self.skip_columns),
        }
        return {key: value for key, value in pairs.items() if value}


def wants(attrs: Mapping[str, str]) -> Wants:
    """What a table with these attributes wants.

    Raises BadOption when the handler is not known to this process, or its options are not right.
    """
    found = registry.make(attrs.get(HANDLER, "")).wants()
    where = attrs.get(WHERE, "")
    if where:
        found = replace(found, where=both(found.where, where))
    if COLUMNS in attrs:
        mine = frozenset(_split(attrs[COLUMNS]))
        found = replace(found, columns=mine if found.columns is None else mine & found.columns)
    if SKIP_COLUMNS in attrs:
        skipped = found.skip_columns | frozenset(_split(attrs[SKIP_COLUMNS]))
        found = replace(found, skip_columns=skipped)
    return found


def with_handler(attrs: Mapping[str, str], handler: str) -> dict[str, str]:
    """The attributes with another handler; '' for the default."""
    rest = {key: value for key, value in attrs.items() if key != HANDLER}
    return {HANDLER: handler, **rest} if handler else rest


def both(one: str, other: str) -> str:
    """The condition that two conditions come to."""
    return f"({one}) and ({other})" if one and other else one or other


def _joined(names: Iterable[str]) -> str:
    return ",".join(quote(name, safe="") for name in names)


def _split(text: str) -> list[str]:
    return [unquote(name) for name in text.split(",") if name]
