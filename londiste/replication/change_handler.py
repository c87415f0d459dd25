"""Giving tables of a node another handler: attributes and trigger change in one transaction.

Where other rows are wanted afterwards than before, the table is copied again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import psycopg

from londiste.cascade import nodes
from londiste.cascade.plan import Sites, Step
from londiste.cascade.types import NodeType
from londiste.db import catalog
from londiste.db.connection import Connection, place
from londiste.db.names import TableName
from londiste.db.queries import query
from londiste.errors import BadOption, StateError, UnknownTable, from_database
from londiste.handlers import registry, wanted
from londiste.handlers.base import Wants
from londiste.replication import shaping, tables
from londiste.replication.add_table import Plan
from londiste.replication.locking import with_table
from londiste.replication.select import select
from londiste.replication.types import ReplicatedTable, encode_attrs

_LETTERS = {"jsontriga": "J", "logutriga": "L", "sqltriga": "Q"}
#: Bits of pg_trigger.tgtype.
_BEFORE, _OPERATIONS = 2, {4: "I", 16: "U", 8: "D"}


def plan(sites: Sites, dsn: str, queue: str, patterns: Sequence[str], handler: str) -> Plan:
    """What to do to give tables of the node at ``dsn`` a handler.  Changes nothing.

    patterns -- names, or patterns with * and ?.
    handler -- its stored form, '' for the default.

    Raises BadOption, UnknownTable, StateError (a copy is under way), UsageError.
    """
    if not patterns:
        raise BadOption("no table given", hint="londiste change-handler TABLE --handler NAME")
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    known = {t.name: t for t in tables.get_table_list(local, queue) if t.local}

    def unknown(text: str) -> UnknownTable:
        return UnknownTable(
            f"table {text} is not replicated here",
            detail="nothing was changed",
            hint="londiste tables lists those that are",
        )

    steps: list[Step] = []
    already: list[TableName] = []
    root = node.type is NodeType.ROOT
    for name in select(patterns, list(known), [], unknown).chosen:
        table = known[name]
        if table.attrs.get(wanted.HANDLER, "") == handler:
            already.append(name)
            continue
        wants = wanted.wants(wanted.with_handler(table.attrs, handler))
        shaping.refuse(node, wants)
        virtual = "virtual_table" in registry.make(handler).words(root=root)
        if not virtual and catalog.info(local, table.dest) is None:
            raise UnknownTable(
                f"table {table.dest} does not exist in {place(dsn)}",
                detail="nothing was changed",
                hint="create it first",
            )
        again = not root and _other_rows(table, wants)
        if not root and table.state not in {None, "ok"}:
            raise StateError(
                f"table {name} is being copied ({table.state})",
                detail="nothing was changed",
                hint="wait until it is in step: londiste wait-sync",
            )
        steps.append(ChangeHandler(node.name, dsn, queue, name, table.dest, handler, root, again))
    return Plan(tuple(steps), tuple(already))


def _other_rows(table: ReplicatedTable, wants: Wants) -> bool:
    """Whether rows are wanted that are not here, or other ones."""
    try:
        before = table.wants
    except BadOption:
        # A handler that this process does not know: whatever it did, the rows are not known.
        return wants.stored
    return wants.stored and replace(wants, ignore_truncate=before.ignore_truncate) != before


@dataclass(frozen=True)
class ChangeHandler:
    """One table of one node has another handler from now on.

    again -- it is copied again.
    """

    node: str
    dsn: str = field(repr=False)
    queue: str
    table: TableName
    dest: TableName
    handler: str
    root: bool
    again: bool

    def describe(self) -> str:
        more = ", copy it again" if self.again else ""
        name = self.handler or "the default"
        return f"{self.node}: give table {self.table} the handler {name}{more}"

    def done(self, sites: Sites) -> bool:
        known = tables.get_table_list(sites.at(self.dsn), self.queue)
        return any(
            t.name == self.table and t.attrs.get(wanted.HANDLER, "") == self.handler for t in known
        )

    def run(self, sites: Sites) -> None:
        """Raises LockTimeout when the table stays locked for ``sites.lock_timeout`` seconds."""
        with_table(sites, self.dsn, self.dest, self.node, self._change)

    def _change(self, conn: Connection) -> None:
        for now in tables.get_table_list(conn, self.queue):
            if now.name != self.table or not now.local:
                continue
            attrs = wanted.with_handler(now.attrs, self.handler)
            words = self._words(conn, now.attrs.get(wanted.HANDLER, ""))
            tables.local_change_handler(conn, self.queue, self.table, words, encode_attrs(attrs))
            if self.again:
                tables.local_set_table_state(conn, self.queue, self.table, None, None)

    def _words(self, conn: Connection, before: str) -> list[str]:
        """What the trigger has now, but for what the old handler asked, and the new one does."""
        try:
            old = set(registry.make(before).words(root=self.root))
        except BadOption:
            old = set()
        new = list(registry.make(self.handler).words(root=self.root))
        words = [word for word in trigger_words(conn, self.queue, self.dest) if word not in old]
        flags = any(word.startswith("tgflags=") for word in [*old, *new])
        words = [w for w in words if not (flags and w.startswith("tgflags="))]
        return [*words, *(word for word in new if word not in words)]


def trigger_words(conn: Connection, queue: str, table: TableName) -> list[str]:
    """The words that make the trigger of a table again as it is."""
    try:
        row = conn.execute(query("trigger_words"), {"queue": queue, "table": str(table)}).fetchone()
    except psycopg.Error as error:
        raise from_database(error, where=place(conn.info.dsn)) from error
    if row is None:
        return ["no_triggers"]
    own, function, bits, raw = row
    arguments = [part.decode() for part in bytes(raw).split(b"\0")[:-1]]
    if own:
        # The queue, and the name of the table in its events.
        return arguments[2:]
    words = [word for word in arguments[1:] if word not in {"SKIP", "deny"}]
    if "deny" in arguments:
        return words
    operations = "".join(letter for bit, letter in _OPERATIONS.items() if bits & bit)
    before = "B" if bits & _BEFORE else ""
    words.append(f"tgflags={_LETTERS.get(function, '')}{before}{operations}")
    return [*words, "skip"] if "SKIP" in arguments else words
