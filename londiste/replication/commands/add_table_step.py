"""The step of ``add-table`` that adds one table, and what it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from londiste.cascade.model import NodeInfo, NodeType
from londiste.db import catalog, owner
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.handlers import condition
from londiste.handlers.base import ALL, TableRules
from londiste.orchestration.connections import Connections
from londiste.orchestration.lock_retry import by_statement, with_table
from londiste.orchestration.steps import NodeStep
from londiste.replication import replicated_rows
from londiste.replication import sqlapi as tables
from londiste.replication.commands import filter_checks
from londiste.replication.model import (
    MERGE_ALL,
    TableOptions,
    decode_attrs,
    encode_attrs,
    with_copy_mode,
    with_trigger,
)
from londiste.replication.tablesync import copy_source


def step_of(
    node: NodeInfo,
    dsn: str,
    table: TableName,
    options: TableOptions,
    *,
    keyless: bool,
    created: bool = False,
) -> AddTable:
    words = options.words(root=node.type is NodeType.ROOT)
    words = [w for w in words if w not in {"insert_only", "whole_row"} or keyless]
    if keyless and not {"insert_only", "whole_row"} & set(words):
        words.append("insert_only")
    # With the rows all there, or none wanted, no copy follows.
    copied = node.type is not NodeType.ROOT and not {"expect_sync", "virtual_table"} & set(words)
    if node.combined_type is NodeType.BRANCH:
        # The rows come through the combined queue.
        copied = False
    chosen = options.choice.attrs() | filter_checks.attrs(node, options.wants)
    if copied:
        chosen = copy_source.with_copy_node(
            with_copy_mode(chosen, options.copy_mode), options.copy_node
        )
        if options.max_parallel_copy is not None:
            chosen = {**chosen, "max_parallel_copy": str(options.max_parallel_copy)}
    attrs = encode_attrs(chosen)
    return AddTable(
        node.name,
        dsn,
        node.queue,
        table,
        options.dest or table,
        tuple(words),
        copied,
        attrs,
        options.wants,
        created=created,
        empties=copied and options.merge == MERGE_ALL and not options.skip_truncate,
        with_sequences=options.sequences and options.wants.stored,
    )


@dataclass(frozen=True)
class AddTable(NodeStep):
    """Adds one table to one node.

    created -- earlier in the same transaction.
    with_sequences -- those of its columns are added too; ``sequences`` are the expected ones.
    empties -- deletes the target's rows now, before several queues copy theirs.
    always -- the capture fires for replicated rows, too.
    """

    table: TableName
    dest: TableName
    words: tuple[str, ...]
    copied: bool
    attrs: str | None = None
    wants: TableRules = ALL
    sequences: tuple[TableName, ...] = ()
    with_sequences: bool = False
    created: bool = False
    empties: bool = False
    always: bool = False

    def describe(self) -> str:
        text = f"{self.node}: "
        if self.empties and not self.created:
            text += f"empty table {self.dest} and "
        text += f"add table {self.table}"
        if self.dest != self.table:
            text += f" as {self.dest}"
        if self.words:
            text += f" ({', '.join(self.words)})"
        if self.attrs:
            text += f" ({', '.join(f'{k}={v}' for k, v in decode_attrs(self.attrs).items())})"
        if self.sequences:
            word = "sequence" if len(self.sequences) == 1 else "sequences"
            text += f" with {word} {', '.join(map(str, self.sequences))}"
        return text + (", to be copied" if self.copied else "")

    def done(self, sites: Connections) -> bool:
        return self.each_done([self], sites)[0]

    @classmethod
    def each_done(cls, steps: Sequence[AddTable], sites: Connections) -> list[bool]:
        """``done`` of several steps on one node, by one look."""
        one = steps[0]
        known = tables.get_tables(sites.at(one.dsn), one.queue, [step.table for step in steps])
        return [step.table in known and known[step.table].local for step in steps]

    def run(self, sites: Connections) -> None:
        """Raises LockTimeout when the table stays locked for ``sites.lock_timeout`` seconds."""
        if self.created or self.empties or self.always:
            with_table(sites, self.dsn, self.dest, self.node, self.add)
        else:
            by_statement(sites, self.dsn, self.dest, self.node, self._register)

    def add(self, conn: Connection) -> None:
        """Does the work of ``run`` in the caller's transaction."""
        if self.created:
            condition.check(conn, self.dest, self.wants)
        if self.empties:
            # Another table's key forbids TRUNCATE, also where that table is emptied next.
            for key in tables.find_table_fkeys(conn, self.dest):
                tables.drop_table_fkey(conn, key.from_table, key.name)
            info = catalog.require(conn, self.dest)
            owner.truncate(conn, self.dest, tree=info.tree)
        self._register(conn)
        if self.always:
            replicated_rows.fire_always(conn, self.queue, self.dest)

    def _register(self, conn: Connection, lock_timeout_ms: int | None = None) -> None:
        tables.add_table(
            conn,
            self.queue,
            self.table,
            with_trigger(self.words),
            self.attrs,
            None if self.dest == self.table else self.dest,
            sequences=self.with_sequences,
            lock_timeout_ms=lock_timeout_ms,
        )
