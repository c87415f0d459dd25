"""A handler of your own that takes events: who changed which row when, one line for each.

    create table audit (tick bigint, event bigint, op text, key text, at timestamptz);

    [londiste]
    handler_modules = ["audit_handler"]

    londiste -c leaf.toml add-table orders --handler audit --handler-arg into=public.audit

The lines are written in the transaction of the batch: each event leaves exactly one, whatever
happens to the worker.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from londiste.handlers.own import (
    At,
    BadOption,
    Connection,
    Event,
    EventWork,
    Handler,
    RowChange,
    TableName,
    TableRules,
    decode_all,
    option,
)


@dataclass(frozen=True)
class WriteLines(EventWork):
    """Writes a line for every row that an event tells."""

    into: str

    def work(self, at: At, events: Sequence[Event]) -> None:
        statement = sql.SQL("insert into {} values (%s, %s, %s, %s, %s)").format(
            TableName.parse(self.into).sql
        )
        lines = [
            (at.tick_id, event.id, change.op.name, _key(change), event.time)
            for event in events
            for change in decode_all(event)
            if isinstance(change, RowChange)
        ]
        with at.conn.cursor() as cursor:
            cursor.executemany(statement, lines)

    def check(self, conn: Connection, queue: str, dest: TableName) -> None:
        found = conn.execute("select to_regclass(%s)", [TableName.parse(self.into).quoted])
        if found.fetchone() == (None,):
            raise BadOption(
                f"there is no table {self.into}", hint="create it, or name another: into=…"
            )


def _key(change: RowChange) -> str:
    return json.dumps({name: change.image[name] for name in change.key})


@dataclass(frozen=True)
class Audit(Handler):
    """Writes a line for every change of a row, and no row."""

    NAME = "audit"
    into: str = option(help="the table that gets the lines")

    def wants(self) -> TableRules:
        return TableRules(stored=False, events=WriteLines(self.into))

    def words(self, *, root: bool) -> tuple[str, ...]:
        # The table itself need not be on this node.
        return () if root else ("virtual_table",)


__londiste_handlers__ = [Audit]
