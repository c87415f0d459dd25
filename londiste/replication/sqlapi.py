"""SQL functions of schema ``londiste``: one typed function for each.

Names of tables are ``TableName``; in the database they are stored as ``schema.name``.  Errors
of the database and return codes of 400 and above are raised as ours; nothing here commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import Hold, WorkerState
from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import fetch
from londiste.replication.model import (
    PendingForeignKey,
    ReplicatedSequence,
    ReplicatedTable,
    SequenceValue,
    StaleCapture,
    decode_attrs,
)

#: What a worker looks at before each batch.
Look: TypeAlias = tuple[WorkerState, Hold | None, list[ReplicatedTable]]

T = TypeVar("T")


def _named(kind: Callable[..., T]) -> Callable[..., T]:
    """``kind`` for rows whose first column is the stored name of a table or sequence."""
    return lambda name, *values: kind(TableName.parse(name), *values)


def _pair(first: Any, second: Any) -> tuple[Any, Any]:
    return first, second


# -- tables -------------------------------------------------------------------


def get_table_list(conn: Connection, queue: str) -> list[ReplicatedTable]:
    """The tables of the queue in the order of adding: known ones and local ones."""
    return _tables(call.rows(conn, "londiste.get_table_list", queue))


def get_tables(
    conn: Connection, queue: str, names: Iterable[TableName]
) -> dict[TableName, ReplicatedTable]:
    """The tables that the queue knows."""
    rows = call.rows(conn, "londiste.get_tables", queue, [str(name) for name in names])
    return {table.name: table for table in _tables(rows)}


def get_table(conn: Connection, queue: str, name: TableName) -> ReplicatedTable | None:
    """One table; None when the queue does not know it."""
    return get_tables(conn, queue, [name]).get(name)


def lock_table(conn: Connection, queue: str, name: TableName) -> ReplicatedTable | None:
    """The same; no other transaction changes its registration until this one ends."""
    fetch(conn, "lock_registration", queue=queue, table=str(name))
    return get_table(conn, queue, name)


class TableListCache:
    """The table list as last read, with its version: the same list until it changes.

    So a thousand tables are not transferred with every tick.
    """

    def __init__(self) -> None:
        self._version: str | None = None
        self._tables: list[ReplicatedTable] = []

    def look(self, conn: Connection, queue: str, consumer: str) -> Look:
        """The state that a worker reads before each batch, in one statement.

        Its state, whether a comparison asks it to wait at a tick, and the result of
        ``get_table_list``.  Raises UnknownNode.
        """
        row = call.row(conn, "londiste.poll_node", queue, consumer, self._version)
        state, hold = nodes.looked(conn, queue, row["state"], row["hold"])
        if row["version"] != self._version:
            self._tables = _tables(row["tables"])
            self._version = row["version"]
        return state, hold, self._tables


def _tables(rows: Iterable[dict[str, Any]]) -> list[ReplicatedTable]:
    result = []
    for row in rows:
        name = TableName.parse(row["table_name"])
        result.append(
            ReplicatedTable(
                name=name,
                dest=TableName.parse(row["dest_table"]) if row["dest_table"] else name,
                local=row["local"],
                state=row["merge_state"],
                snapshot=row["custom_snapshot"],
                attrs=decode_attrs(row["table_attrs"]),
                dropped_ddl=row["dropped_ddl"],
                copy_role=row["copy_role"],
                copy_pos=row["copy_pos"],
            )
        )
    return result


def renamed_tables(conn: Connection, queue: str) -> dict[TableName, TableName]:
    """Local tables that have another name in this database now, and that name."""
    rows = call.records(conn, _named(_pair), "londiste.renamed_tables", queue)
    return {table: TableName.parse(name) for table, name in rows}


def rewritten_tables(conn: Connection, queue: str) -> list[TableName]:
    """Tables whose rows were changed on this node without events."""
    rows = call.records(conn, _named(_pair), "londiste.rewritten_tables", queue)
    return [table for table, _ in rows]


def lost_captures(conn: Connection, queue: str) -> list[tuple[TableName, str]]:
    """Local tables whose changes are no longer captured, and why."""
    return call.records(conn, _named(_pair), "londiste.lost_captures", queue)


def set_follow_errors(conn: Connection, queue: str, errors: Mapping[str, str]) -> None:
    """Stores objects that could not be added automatically, by name with the reason."""
    call.value(conn, "londiste.set_follow_errors", queue, list(errors), list(errors.values()))


def get_follow_errors(conn: Connection, queue: str) -> list[tuple[str, str]]:
    """The objects that could not be added automatically: names and reasons."""
    return [
        (str(row["object_name"]), str(row["message"]))
        for row in call.rows(conn, "londiste.get_follow_errors", queue)
    ]


def captured_columns(conn: Connection, queue: str, table: TableName) -> frozenset[str] | None:
    """The columns in the events of a table (by its name there); None: unknown."""
    found = call.value(conn, "londiste.captured_columns", queue, str(table))
    return None if found is None else frozenset(found)


def lost_capture(conn: Connection, queue: str, table: TableName) -> str:
    """Why a table (by its name there) is not captured any more; '' while it is, or never was."""
    return str(call.value(conn, "londiste.lost_capture", queue, str(table)) or "")


def stale_captures(conn: Connection, queue: str) -> dict[str, StaleCapture]:
    """Native captures that are stale, by the table."""
    return {x.table: x for x in call.records(conn, StaleCapture, "londiste.stale_captures", queue)}


@dataclass(frozen=True)
class CaptureForm:
    """How the native capture writes a table's changes: form ``row`` or ``statement``, and why."""

    table: TableName
    form: str
    reason: str


def capture_forms(conn: Connection, queue: str) -> list[CaptureForm]:
    """The forms of the native captures, by the names that tables have here."""
    return call.records(conn, _named(CaptureForm), "londiste.capture_forms", queue)


def change_form(conn: Connection, queue: str, table: TableName, form: str) -> bool:
    """Captures a table as row, statement or auto; False when it already does.

    table -- its name here.  Locks it.  Raises UnknownTable (no capture), UsageError (no form).
    """
    return bool(call.value(conn, "londiste.change_form", queue, str(table), form))


def change_trigger(conn: Connection, queue: str, table: TableName, flag: str) -> bool:
    """Gives a table another trigger with the same arguments; False when it has that one.

    table -- its registered name.  flag -- C, L, J or Q.  Locks it.  Raises UnknownTable,
    UsageError (an argument that the other trigger does not take), StateError.
    """
    return bool(call.value(conn, "londiste.change_trigger", queue, str(table), flag))


@dataclass(frozen=True)
class MissingObject:
    """Something that could be added; ``kind`` is ``r`` (table) or ``S`` (sequence)."""

    kind: str
    name: str


def local_show_missing(conn: Connection, queue: str) -> list[MissingObject]:
    """What could be added on this node.  Raises UnknownQueue."""
    return call.records(conn, MissingObject, "londiste.local_show_missing", queue)


def add_table(
    conn: Connection,
    queue: str,
    table: TableName,
    words: Sequence[str] = (),
    attrs: str | None = None,
    dest: TableName | None = None,
    *,
    sequences: bool = False,
    lock_timeout_ms: int | None = None,
) -> str:
    """Adds a table to this node; returns the database's message.

    words -- see ``TableOptions.words``.  Takes SHARE ROW EXCLUSIVE on the table.
    sequences -- with those of its columns.
    lock_timeout_ms -- of this transaction; None: that of the session.
    Raises BadOption (no key), UnknownTable, StateError (added differently, several sources).
    """
    answer = call.ret(
        conn,
        "londiste.add_table_with_seqs",
        queue,
        str(table),
        list(words),
        attrs,
        None if dest is None else str(dest),
        sequences,
        None if lock_timeout_ms is None else f"{lock_timeout_ms}ms",
    )
    return answer.note


def local_remove_table(
    conn: Connection, queue: str, table: TableName, keep: Sequence[TableName] = ()
) -> str:
    """Stops replicating a table here, on the root everywhere.  UsageError: it is not local."""
    # Sequences of its columns in ``keep`` stay.
    kept = [list(map(str, keep))] if keep else []
    return call.ret(conn, "londiste.local_remove_table", queue, str(table), *kept).note


def global_add_table(conn: Connection, queue: str, table: TableName) -> None:
    """Registers a table of the queue; no error when it is registered already."""
    call.ret(conn, "londiste.global_add_table", queue, str(table))


def global_remove_table(conn: Connection, queue: str, table: TableName) -> None:
    """Unregisters a table of the queue.  UsageError when it is not known."""
    call.ret(conn, "londiste.global_remove_table", queue, str(table))


def local_change_handler(
    conn: Connection, queue: str, table: TableName, words: Sequence[str], attrs: str | None
) -> None:
    """Gives a local table new attributes and triggers."""
    call.ret(conn, "londiste.local_change_handler", queue, str(table), list(words), attrs)


def local_set_table_state(
    conn: Connection, queue: str, table: TableName, snapshot: str | None, state: str | None
) -> None:
    """Stores state and copy snapshot.  UsageError: the table is not known any more."""
    call.ret(conn, "londiste.local_set_table_state", queue, str(table), snapshot, state)


def move_table_state(
    conn: Connection,
    queue: str,
    table: TableName,
    from_state: str | None,
    to_state: str | None,
    snapshot: str | None,
) -> bool:
    """Stores state and copy snapshot if the table is still in the state it was seen in."""
    change = (str(table), from_state, to_state, snapshot)
    return bool(call.value(conn, "londiste.move_table_state", queue, *change))


@dataclass(frozen=True)
class StateMove:
    """A table's change from the state it was seen in, with the copy's snapshot."""

    table: TableName
    old: str | None
    new: str | None
    snapshot: str | None


def move_table_states(
    conn: Connection, queue: str, moves: Sequence[StateMove], *, consumer: str | None = None
) -> set[TableName]:
    """``move_table_state`` for several tables at once: those that were moved.

    consumer -- only those that catch up by this one.
    """
    moved = call.records(
        conn,
        TableName.parse,
        "londiste.move_table_states",
        queue,
        [str(move.table) for move in moves],
        [move.old for move in moves],
        [move.new for move in moves],
        [move.snapshot for move in moves],
        consumer,
    )
    return set(moved)


def local_set_table_attrs(
    conn: Connection, queue: str, table: TableName, attrs: str | None
) -> None:
    """Stores the url-encoded attributes of a local table."""
    call.ret(conn, "londiste.local_set_table_attrs", queue, str(table), attrs)


def forget_events(conn: Connection, queue: str, table: TableName) -> int:
    """Deletes the events of a table from the queue of this branch; their number."""
    return int(call.value(conn, "londiste.forget_events", queue, str(table)))


def local_set_table_struct(conn: Connection, queue: str, table: TableName, ddl: str | None) -> None:
    """Stores the statements that restore what a copy drops; None when restored."""
    call.ret(conn, "londiste.local_set_table_struct", queue, str(table), ddl)


def create_trigger(
    conn: Connection,
    queue: str,
    table: TableName,
    args: Sequence[str],
    dest: TableName,
    node_type: str,
) -> None:
    """Puts the triggers of a queue on a table: capture on root and branch, deny on a leaf."""
    call.ret(conn, "londiste.create_trigger", queue, str(table), list(args), str(dest), node_type)


def refresh_capture(conn: Connection, queue: str, dest: TableName) -> bool:
    """Recreates the native capture after its table has changed; False when it was not stale."""
    return bool(call.value(conn, "londiste.refresh_capture", queue, str(dest)))


def drop_table_triggers(conn: Connection, queue: str, table: TableName) -> None:
    """Drops all triggers of the queue from a table."""
    call.value(conn, "londiste.drop_table_triggers", queue, str(table))


# -- sequences ----------------------------------------------------------------


def get_seq_list(conn: Connection, queue: str) -> list[ReplicatedSequence]:
    """The sequences of the queue in the order of adding."""
    return call.records(conn, _named(ReplicatedSequence), "londiste.get_seq_list", queue)


def find_seq_oid(conn: Connection, seq: TableName) -> int | None:
    """The sequence's object number; None when there is no such sequence."""
    answer = call.value(conn, "londiste.find_seq_oid", str(seq))
    return None if answer is None else int(answer)


def local_add_seq(conn: Connection, queue: str, seq: TableName) -> str:
    """Adds a sequence to this node; returns the database's message."""
    return call.ret(conn, "londiste.local_add_seq", queue, str(seq)).note


def local_remove_seq(conn: Connection, queue: str, seq: TableName) -> str:
    """Removes a sequence from this node, on the root everywhere."""
    return call.ret(conn, "londiste.local_remove_seq", queue, str(seq)).note


def global_update_seq(
    conn: Connection, queue: str, seq: TableName, value: int, how: str | None = None
) -> None:
    """Stores a published value; moves the sequence where it is local.

    how -- back, cycle, exact or unused, as the root publishes it; None: the sequence of this
        node tells its direction.
    """
    call.ret(conn, "londiste.global_update_seq", queue, str(seq), value, how)


def global_remove_seq(conn: Connection, queue: str, seq: TableName) -> None:
    """Unregisters a sequence of the queue.  UsageError when it is not known."""
    call.ret(conn, "londiste.global_remove_seq", queue, str(seq))


def sequence_values(conn: Connection, queue: str) -> list[SequenceValue]:
    """Current values of this node's replicated sequences; publishes nothing."""
    return call.records(conn, _named(SequenceValue), "londiste.sequence_values", queue)


# -- foreign keys -------------------------------------------------------------


def find_table_fkeys(conn: Connection, table: TableName) -> list[PendingForeignKey]:
    """Foreign keys from or to a table that exist now."""
    return _fkeys(conn, "londiste.find_table_fkeys", str(table))


def find_tables_fkeys(conn: Connection, names: Iterable[TableName]) -> list[PendingForeignKey]:
    """Foreign keys from and to the tables that exist now, of all of them at once."""
    return _fkeys(conn, "londiste.find_tables_fkeys", [str(name) for name in names])


def drop_table_fkey(conn: Connection, from_table: TableName, name: str) -> bool:
    """Drops a foreign key and stores it; False when there is none of that name."""
    return bool(call.value(conn, "londiste.drop_table_fkey", str(from_table), name))


def get_table_pending_fkeys(conn: Connection, table: TableName) -> list[PendingForeignKey]:
    """Foreign keys from or to a table that wait to be restored."""
    return _fkeys(conn, "londiste.get_table_pending_fkeys", str(table))


def get_valid_pending_fkeys(conn: Connection, queue: str) -> list[PendingForeignKey]:
    """Foreign keys that the worker of this queue may restore now."""
    return _fkeys(conn, "londiste.get_valid_pending_fkeys", queue)


def add_pending_fkey(
    conn: Connection, from_table: TableName, to_table: TableName, name: str, definition: str
) -> None:
    """Stores a foreign key, to be restored when both tables are in sync."""
    call.value(conn, "londiste.add_pending_fkey", str(from_table), str(to_table), name, definition)


def restore_table_fkey(
    conn: Connection, from_table: TableName, name: str, *, lazy: bool = False
) -> str:
    """Restores a foreign key.  Lazy: the next statement to run and commit, '' at the end."""
    return str(call.value(conn, "londiste.restore_table_fkey", str(from_table), name, lazy))


def _fkeys(conn: Connection, function: str, argument: str | list[str]) -> list[PendingForeignKey]:
    def key(from_table: str, to_table: str, name: str, definition: str) -> PendingForeignKey:
        return PendingForeignKey(
            TableName.parse(from_table), TableName.parse(to_table), name, definition
        )

    return call.records(conn, key, function, argument)
