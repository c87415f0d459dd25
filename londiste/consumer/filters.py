"""Event filter of a consumer as one SQL condition.

The server excludes the other events before it sends them.  They are finished with their
batch like processed events.
"""

from __future__ import annotations

from collections.abc import Iterable

from psycopg import sql

from londiste.db.names import TableName
from londiste.errors import BadOption


class BadCondition(BadOption):
    """The server cannot evaluate the condition of a consumer."""


def condition(
    *,
    types: Iterable[str] = (),
    tables: Iterable[str] = (),
    where: str | sql.Composable = "",
    setting: str = "",
) -> sql.Composed | None:
    """The condition over the columns of an event; None for all events.

    types -- values of ``ev_type``.
    tables -- tables in ``ev_extra1``, where triggers write them; without a schema in ``public``.
    where -- a condition over ``ev_id``, ``ev_type``, … in SQL: text of the program, or composed
        with ``psycopg.sql`` when values are part of it.
    setting -- one more, out of the settings.
    """
    parts: list[sql.Composable] = []
    if wanted := list(dict.fromkeys(types)):
        parts.append(sql.SQL("ev_type = any ({}::text[])").format(sql.Literal(wanted)))
    if names := _tables(tables):
        parts.append(sql.SQL("ev_extra1 = any ({}::text[])").format(sql.Literal(names)))
    for one in (where, setting):
        if isinstance(one, sql.Composable):
            parts.append(one)
        elif one.strip():
            parts.append(sql.SQL(one))
    if not parts:
        return None
    # The line breaks keep a comment at the end of a condition from swallowing the rest.
    return sql.SQL(" and ").join(sql.SQL("(\n{}\n)").format(part) for part in parts)


def _tables(tables: Iterable[str]) -> list[str]:
    """Each name as given and with its schema: manual producers write either."""
    found: dict[str, None] = {}
    for text in tables:
        found[text] = None
        found[str(TableName.parse(text))] = None
    return list(found)
