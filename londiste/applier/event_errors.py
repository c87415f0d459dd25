"""Errors of events that cannot be applied: message, hint and the rows that operators see.

Messages, details and hints contain no row values: ``londiste events show`` lists the row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import psycopg

from londiste.applier import statements
from londiste.applier.conflict_policy import Action, decide, kind_of
from londiste.applier.plan import ReplayChanges, TableChange, TablePlan
from londiste.changes.row_values import format_error
from londiste.changes.types import RowChange, Truncate
from londiste.db import owner
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument, quote
from londiste.db.queries import query
from londiste.db.relation import Relation
from londiste.error_origin import (
    forced_hint,
    in_owner_code,
    innermost_function,
    raised_by_code,
    rights_hint,
    unqualified_hint,
)
from londiste.error_values import Values, shown
from londiste.errors import (
    LD_CLASSES,
    OWNER_GRANTS,
    ApplyError,
    EventError,
    LondisteError,
    TransientError,
    from_database,
)
from londiste.wording import READ_ONLY

_DISKS = "look into the log of this server, and check its disks"
#: SQLSTATEs of a server that cannot write at all, and their hints.
_NO_WRITES = {"25006": READ_ONLY, "58000": _DISKS, "58030": _DISKS}
#: Classes of what the server refuses because of how the table is defined: a copy meets it, too.
_OF_DEFINITION = ("0A", "22", "42", "44", "54")


class EventErrors:
    """Makes the errors of events of one queue on one node; reads the rows that they show."""

    def __init__(self, conn: Connection, *, node: str, queue: str) -> None:
        self._conn = conn
        self._node = node
        self._queue = queue

    def refused(
        self,
        change: TableChange,
        shape: Relation,
        error: psycopg.Error,
        statement: str,
        *,
        exists: bool = False,
    ) -> Exception:
        """The error for a statement that the server refused."""
        known = of_write(error, self._node, shape.name)
        if known.retry:
            return known
        state = error.sqlstate or ""
        by: tuple[str, ...] = ()
        hint = ""
        if isinstance(change, RowChange) and not exists and error.diag.constraint_name:
            by = self._columns_of(shape, error.diag.constraint_name)
            hint = self._index_hint(change, shape, error)
        found = self.error(
            change,
            shape,
            format_error(error),
            detail=f"{key_of(change)}SQLSTATE {state}, SQL: {statement}",
            hint=hint or _hint_of(error, shape.name, change.table),
            kind="exists" if exists else kind_of(state),
            statement=statement,
            sqlstate=state,
            by=by,
        )
        found.sqlstate, found.by_code = state, known.by_code
        return found

    def _index_hint(self, change: RowChange, shape: Relation, error: psycopg.Error) -> str:
        """The hint for a unique index that only this node may have; '' for other errors.

        A copy would not help: it drops the index, and cannot build it again over those rows.
        """
        name = error.diag.constraint_name
        if error.sqlstate not in ("23505", "23P01") or not name or in_owner_code(error):
            return ""
        found = self._conn.execute(query("unique_object"), [shape.oid, name]).fetchone()
        if found is None or found[2]:
            return ""
        schema, by_constraint, _ = found
        drop = (
            f"alter table {shape.name.quoted} drop constraint {quote(name)}"
            if by_constraint
            else f"drop index {TableName(schema, name).quoted}"
        )
        return (
            f"if the table of the provider has no {name}, drop it here, and the worker continues:"
            f" {drop}; otherwise {hint_for(error.sqlstate, shape.name, change.table)}"
        )

    def _columns_of(self, shape: Relation, index: str) -> tuple[str, ...]:
        """The columns of a unique index; none where there are expressions."""
        rows = self._conn.execute(query("index_columns"), [shape.oid, index]).fetchall()
        names = tuple(str(row[0]) for row in rows if row[0] in shape.by_name)
        return names if len(names) == len(rows) else ()

    def _here(self, change: RowChange, shape: Relation, by: tuple[str, ...]) -> str | None:
        """The target row as JSON, by its key or other columns; None if not found."""
        names = by or change.key or shape.key
        if not names or not set(names) <= change.image.keys() & shape.by_name.keys():
            return None
        keyed = {name: change.image[name] for name in names}
        try:
            with self._conn.transaction():
                statement = statements.find_sql(shape, names)
                found = owner.ask(self._conn, shape, statement, statements.payload(keyed))
        except psycopg.Error:
            # The value may be none of its type.
            return None
        return found[0] if found else None

    def error(
        self,
        change: TableChange,
        shape: Relation,
        what: str,
        *,
        detail: str = "",
        hint: str = "",
        kind: str = "structure",
        statement: str = "",
        sqlstate: str = "",
        by: tuple[str, ...] = (),
    ) -> EventError:
        """The error of one event.

        by -- the columns in which another row conflicts with it.
        """
        row = change if isinstance(change, RowChange) else None
        verb = row.op.name.lower() if row else "truncate"
        address = row.address if row else str(change.event_id)
        found = ApplyError(kind, table=str(change.table), dest=str(shape.name), op=verb)
        if row is not None:
            # Read for operators; not where the policy only counts rows.
            halts = decide(shape.on_error, kind, row) is Action.HALT
            looks = halts or shape.on_error == "log"
            found = dataclasses.replace(
                found,
                row=row.row,
                key=row.key,
                image=row.image,
                here=self._here(row, shape, by) if looks else None,
                statement=statement,
                sqlstate=sqlstate,
            )
        return EventError(
            f"event {address} ({verb} of table {shape.name}) cannot be applied on node"
            f" {self._node}: {what}",
            detail=detail,
            hint=f"{hint or hint_for('', shape.name, change.table)}; or skip the event:"
            f" londiste events skip {address}, then compare the table: londiste compare"
            f" {argument(change.table)}; londiste events show lists the rows",
            queue=self._queue,
            event_id=change.event_id,
            finding=found,
        )

    def not_kept(self, change: RowChange, shape: Relation, statement: str) -> EventError:
        """The error of an INSERT that the server accepted without a row."""
        return self.error(
            change,
            shape,
            "the table did not keep the row: it has a trigger or rule that fires always",
            detail=f"{key_of(change)}SQL: {statement}",
            hint="let the trigger or rule fire for other sessions only: alter table"
            f" {shape.name.quoted} enable trigger NAME; or: enable rule NAME",
            kind="refused",
            statement=statement,
        )

    def missing(self, change: RowChange, shape: Relation) -> EventError | None:
        """The error of an event with an unknown column, or without a value for its key."""
        lacking = [n for n in dict.fromkeys((*change.image, *change.key)) if n not in shape.by_name]
        if lacking:
            word = "column" if len(lacking) == 1 else "columns"
            return self.error(
                change,
                shape,
                f"the table has no {word} {', '.join(lacking)}",
                hint=f"add them with the settings of node {self._node}:"
                f" londiste columns {argument(change.table)} --add; or by hand: alter table"
                f" {shape.name.quoted} add column …",
            )
        for name in change.key:
            if name not in change.image:
                return self.error(change, shape, f"the event has no value for key column {name}")
        return None


def check_columns(plan: TablePlan, again: ReplayChanges, errors: EventErrors) -> None:
    """Checks that the target has every column of the events: nothing that was sent is dropped.

    Raises EventError for the first event that has another one.
    """
    if plan.sets is not None and not plan.changes:
        names = {name for rows_ in plan.sets for name in (*rows_.columns, *rows_.key)}
        if names <= plan.shape.by_name.keys():
            return
        changes: Iterable[TableChange] = (c for shape, c in again() if shape is plan.shape)
    else:
        changes = plan.changes
    seen: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    for change in changes:
        if isinstance(change, Truncate):
            continue
        form = tuple(change.image), change.key
        if form not in seen:
            seen.add(form)
            error = errors.missing(change, plan.shape)
            if error is not None:
                raise error


def key_of(change: TableChange) -> str:
    """The columns by which the row is found."""
    if isinstance(change, Truncate) or not change.key:
        return ""
    return f"key ({', '.join(change.key)}), "


def of_write(error: psycopg.Error, node: str, table: TableName | None = None) -> LondisteError:
    """The error of a statement that writes a table; ``retry``: it is temporary.

    What code of the table raises is not, whatever SQLSTATE it chose: its event is named.  An error
    that is temporary names the table, because another session may hold it.

    table -- None: one of several.
    """
    known = from_database(error, where=node, values=Values.APART)
    if known.retry and raised_by_code(error):
        state = error.sqlstate or ""
        known = LondisteError(known.message, detail=known.detail or f"SQLSTATE {state}")
        known.sqlstate, known.by_code = state, True
    elif not known.retry and _writes_nothing(error):
        state = error.sqlstate or ""
        hint = known.hint or _NO_WRITES[state]
        known = TransientError(known.message, detail=known.detail, hint=hint)
        known.sqlstate = state
    if known.retry and table is not None and error.diag.severity_nonlocalized == "ERROR":
        known.say_more(f"while table {table} was written")
    return known


def _writes_nothing(error: psycopg.Error) -> bool:
    """Whether the server refuses to write any row; not where code of a table made it do so."""
    name = innermost_function(error)
    ours = not name or name.startswith(("londiste.", "londiste_apply."))
    return error.sqlstate in _NO_WRITES and ours and not raised_by_code(error)


def _hint_of(error: psycopg.Error, dest: TableName, table: TableName) -> str:
    """The hint for an error of the server about a row; names as for ``hint_for``."""
    state = error.sqlstate or ""
    if error.diag.source_function == "CheckCmdReplicaIdentity":
        return (
            f"a publication contains the table: alter table {dest.quoted} replica identity full;"
            " the worker then continues automatically"
        )
    if in_owner_code(error):
        if state == "42501":
            return forced_hint(error, dest.quoted) or OWNER_GRANTS
    elif state in LD_CLASSES:
        return shown(error, Values.APART).hint or hint_for(state, dest, table)
    if state == "42501" and (hint := rights_hint(error, dest.quoted)):
        return hint
    if hint := unqualified_hint(error):
        return hint
    if raised_by_code(error):
        return f"change the trigger or function of {dest} that raises the error"
    return hint_for(state, dest, table)


def hint_for(state: str, dest: TableName, table: TableName) -> str:
    """The hint for a SQLSTATE; '' for none.

    dest -- the table that is written here; table -- its name in the queue, for commands.
    """
    if state in {"22P05", "22021"}:
        return (
            "correct the row on the root, because the encoding of this database has no such"
            f" character; then copy the table again: londiste resync {argument(table)}"
        )
    if state.startswith(("XX", "58")):
        return (
            f"{_DISKS}; if only an index is damaged: reindex table {dest.quoted}; if rows are:"
            f" londiste resync {argument(table)}"
        )
    if state.startswith(_OF_DEFINITION) or state in {"23502", "23514", "55000"}:
        return (
            f"change the definition of {dest} to match the provider's; the worker then continues"
            " automatically"
        )
    return f"copy the table again: londiste resync {argument(table)}"
