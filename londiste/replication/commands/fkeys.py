"""``fkeys``: states of the foreign keys of replicated tables, and their restoration.

A copy drops keys and stores them (``londiste.pending_fkeys``); the worker restores them when both
tables are in sync (``fkey_validator``).  This command restores those that the worker does not,
because a table is not replicated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.db import owner
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument, quote
from londiste.db.queries import first, records, translated
from londiste.db.sessions.view_guard import reading
from londiste.errors import LondisteError, StateError, UnknownTable
from londiste.handlers.base import literal
from londiste.orchestration.connections import Connections
from londiste.orchestration.lock_retry import with_table
from londiste.orchestration.plan import CommandPlan
from londiste.orchestration.steps import Step, execute
from londiste.replication import sqlapi as tables
from londiste.replication.model import PendingForeignKey
from londiste.replication.patterns import table_meant
from londiste.replication.tablesync import child_rows
from londiste.replication.tablesync.add_foreign_key import add_foreign_key


@dataclass(frozen=True)
class KeyFacts:
    """The stored facts of one key; fields as in ``foreign_key_states``.

    to_in_children -- a handler stores the rows of the referenced table in child tables.
    """

    from_table: str
    to_table: str
    name: str
    there: bool = True
    valid: bool = True
    enforced: bool = True
    pending: bool = False
    from_exists: bool = True
    to_exists: bool = True
    from_replicated: bool = True
    to_replicated: bool = True
    from_states: Sequence[str] = ()
    to_states: Sequence[str] = ()
    checking_since: datetime | None = None
    to_in_children: bool = False


@dataclass(frozen=True)
class KeyState:
    """state -- active, checking, unchecked, not valid, not enforced or pending. why -- it is not
    active; do -- the remedy; by_hand -- ``plan`` can restore it now.
    """

    state: str
    why: str = ""
    do: str = ""
    by_hand: bool = False


def judge(one: KeyFacts) -> KeyState:
    """The state of a key, and how it is restored."""
    mend = f"londiste fkeys --restore {argument(one.from_table)}"
    if one.there and not one.enforced:
        return KeyState("not enforced", "created NOT ENFORCED")
    if one.there and one.valid:
        return KeyState("active")
    if one.there and one.checking_since is not None:
        return KeyState("checking", "its rows are being validated")
    if one.to_in_children:
        return _never(one)
    if one.there and not one.pending:
        table = TableName.parse(one.from_table).quoted
        return KeyState(
            "not valid",
            "created NOT VALID: older rows may violate it",
            f"alter table {table} validate constraint {quote(one.name)}",
        )
    reasons = _reasons(one)
    if one.there:
        if reasons:
            return KeyState("unchecked", "; ".join(reasons), "wait until both tables are in sync")
        return KeyState("unchecked", "its rows are not validated yet", mend, by_hand=True)
    if reasons:
        missing = not (one.from_exists and one.to_exists)
        do = "create the table" if missing else "wait until both tables are in sync"
        return KeyState("pending", "; ".join(reasons), do)
    alone = [
        name
        for name, replicated in (
            (one.from_table, one.from_replicated),
            (one.to_table, one.to_replicated),
        )
        if not replicated
    ]
    if alone:
        why = f"{' and '.join(alone)} not replicated here: no worker restores it"
        return KeyState("pending", why, mend, by_hand=True)
    return KeyState("pending", "the worker restores it next", mend, by_hand=True)


def _never(one: KeyFacts) -> KeyState:
    """The state of a key that is not valid as long as the referenced rows are in child tables."""
    why = child_rows.no_reference(one.to_table)
    table = TableName.parse(one.from_table).quoted
    ends = []
    if one.there:
        ends.append(f"alter table {table} drop constraint {quote(one.name)}")
    if one.pending:
        ends.append(
            f"delete from londiste.pending_fkeys where from_table = {literal(one.from_table)}"  # noqa: S608
            f" and fkey_name = {literal(one.name)}"
        )
    state = "pending" if not one.there else "unchecked" if one.pending else "not valid"
    return KeyState(
        state,
        why,
        "store them in the table itself: londiste change-handler; or give up the key: "
        + "; ".join(ends),
    )


def _reasons(one: KeyFacts) -> list[str]:
    """Why it cannot be restored now."""
    reasons = []
    for name, exists, states in (
        (one.from_table, one.from_exists, one.from_states),
        (one.to_table, one.to_exists, one.to_states),
    ):
        if not exists:
            reasons.append(f"table {name} does not exist")
        elif states:
            reasons.append(f"table {name} is {', '.join(states)}")
    return list(dict.fromkeys(reasons))


def collect(conn: Connection, queue: str, names: Sequence[TableName] = ()) -> list[KeyFacts]:
    """The keys from and to the tables of a queue, or those of ``names`` (by their names here).

    Raises UnknownTable for a name that has no key and is no local table.
    """
    found = records(conn, KeyFacts, "foreign_key_states", queue=queue)
    spread = {str(name) for name in child_rows.unreferable(conn)}
    found = [replace(one, to_in_children=one.to_table in spread) for one in found]
    if not names:
        return found
    known = {str(t.dest) for t in tables.get_table_list(conn, queue) if t.local}
    known |= {one.from_table for one in found} | {one.to_table for one in found}
    for name in names:
        if str(name) not in known:
            raise UnknownTable(
                f"table {name} is not replicated here",
                hint=table_meant(str(name), map(TableName.parse, known), "londiste tables"),
            )
    wanted = {str(name) for name in names}
    return [one for one in found if wanted & {one.from_table, one.to_table}]


def left_off(conn: Connection, queue: str, dests: Sequence[TableName]) -> tuple[str, ...]:
    """The notes when tables are removed while keys of theirs are dropped."""
    gone = {str(dest) for dest in dests}
    return tuple(
        f"table {one.from_table}: foreign key {one.name} was dropped for a copy; the worker cannot"
        f" restore it without {one.to_table if one.to_table in gone else one.from_table}; when its"
        f" rows are valid: londiste fkeys --restore {argument(one.from_table)}"
        for one in collect(conn, queue)
        if one.pending and gone & {one.from_table, one.to_table}
    )


def plan(sites: Connections, dsn: str, queue: str, names: Sequence[TableName] = ()) -> CommandPlan:
    """Plans restoring the keys that can be restored.  Changes nothing.

    ``skipped`` -- keys that have to wait, with the reason.
    """
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    # A root copies no table.
    known = tables.get_table_list(local, queue) if node.type is not NodeType.ROOT else []
    copied = {str(table.dest): table.name for table in known if table.local}
    steps: list[Step] = []
    skipped = []
    for one in collect(local, queue, names):
        state = judge(one)
        if state.by_hand:
            table = TableName.parse(one.from_table)
            key = (node.name, dsn, table, one.name, copied.get(one.from_table))
            if not one.there:
                steps.append(MakeKey(*key))
            steps.append(CheckKey(*key))
        elif one.pending:
            skipped.append(
                f"table {one.from_table}: foreign key {one.name} is {state.state}: {state.why}"
            )
    return CommandPlan(tuple(steps), skipped=tuple(skipped))


def restore(
    steps: Sequence[Step], sites: Connections, report: Callable[[Step], None] = lambda step: None
) -> None:
    """Executes the steps of ``plan``.  Raises StateError at the end for the keys that rows violate.

    Other errors end it.
    """
    violated: dict[tuple[TableName, str], KeyViolated] = {}
    for step in steps:
        if isinstance(step, _KeyStep) and (step.table, step.name) in violated:
            continue
        try:
            execute([step], sites, report)
        except KeyViolated as error:
            violated[error.table, error.name] = error
    if violated:
        raise _together(list(violated.values()))


def _together(errors: Sequence[KeyViolated]) -> StateError:
    """One error for all keys that rows violate."""
    if len(errors) == 1:
        return errors[0]
    names = ", ".join(f"{one.name} of table {one.table}" for one in errors)
    return StateError(
        f"rows violate {len(errors)} foreign keys: {names}",
        detail="; ".join(f"{one.name}: {one.detail}" for one in errors),
        hint="; ".join([*(one.remedy for one in errors), _AGAIN]),
    )


def plan_end(sites: Connections, node: str, dsn: str, queue: str) -> list[Step]:
    """The steps that restore all keys before the node is dropped; no worker restores them later.

    Includes keys that the worker is validating.  Keys of tables in copy, and those that never
    become valid, are left to ``DropNode``.
    """
    steps: list[Step] = []
    for one in collect(sites.at(dsn), queue):
        if one.pending and not one.to_in_children and not _reasons(one):
            key = (node, dsn, TableName.parse(one.from_table), one.name)
            steps += [MakeKey(*key), CheckKey(*key)]
    return steps


_AGAIN = "then repeat the command"


class KeyViolated(StateError):
    """Rows violate a key.  remedy -- how to correct them."""

    def __init__(self, table: TableName, name: str, remedy: str, *, detail: str) -> None:
        super().__init__(
            f"table {table}: rows violate foreign key {name}",
            detail=detail,
            hint=f"{remedy}; {_AGAIN}",
        )
        self.table = table
        self.name = name
        self.remedy = remedy


@dataclass(frozen=True)
class _KeyStep:
    """A key, and the node of its table.

    copied -- the name of the table in the queue; None if no copy writes it here.
    """

    node: str
    dsn: str = field(repr=False)
    table: TableName
    name: str
    copied: TableName | None = None

    def run(self, sites: Connections) -> None:
        """Raises LockTimeout, AccessDenied, KeyViolated."""
        try:
            with sites.at_length():
                with_table(sites, self.dsn, self.table, self.node, self.work)
        except LondisteError as error:
            if not isinstance(error.__cause__, psycopg.errors.ForeignKeyViolation):
                raise
            raise self._violated(sites.at(self.dsn), error) from error

    def work(self, conn: Connection) -> None:
        """The statements of the step, in one transaction."""
        raise NotImplementedError

    def _violated(self, conn: Connection, error: LondisteError) -> KeyViolated:
        remedy = "correct the rows"
        found = _violations_of(conn, self.table, self.name)
        detail = error.detail
        if found is not None:
            statement, other = found
            detail = (
                f"the key exists and is enforced for new rows; {_number(conn, statement)} to no row"
                f" of table {other}"
            )
            remedy += f", which this statement finds: {statement}"
        if self.copied:
            remedy += f"; or copy the table again: londiste resync {argument(self.copied)}"
        return KeyViolated(self.table, self.name, remedy, detail=detail)

    def pending(self, sites: Connections) -> bool:
        """Whether the definition of the key is stored."""
        return self.stored(sites.at(self.dsn)) is not None

    def stored(self, conn: Connection) -> PendingForeignKey | None:
        """The stored definition of the key."""
        pending = tables.get_table_pending_fkeys(conn, self.table)
        found = [key for key in pending if (key.from_table, key.name) == (self.table, self.name)]
        return found[0] if found else None


class MakeKey(_KeyStep):
    """Adds a key as NOT VALID."""

    def describe(self) -> str:
        return f"{self.node}: add foreign key {self.name} to table {self.table}, NOT VALID"

    def explain(self) -> list[str]:
        """The statement of ``londiste.restore_table_fkey``."""
        return ["-- locks both tables against writers for a moment"]

    def done(self, sites: Connections) -> bool:
        if not self.pending(sites):
            return True
        return _violations_of(sites.at(self.dsn), self.table, self.name) is not None

    def work(self, conn: Connection) -> None:
        key = self.stored(conn)
        text = tables.restore_table_fkey(conn, self.table, self.name, lazy=True)
        if key is not None and text and " VALIDATE CONSTRAINT " not in text:
            add_foreign_key(conn, key, text)


class CheckKey(_KeyStep):
    """Validates a key and deletes its stored definition."""

    def describe(self) -> str:
        return f"{self.node}: validate foreign key {self.name} of table {self.table}"

    def done(self, sites: Connections) -> bool:
        return not self.pending(sites)

    def work(self, conn: Connection) -> None:
        text = tables.restore_table_fkey(conn, self.table, self.name, lazy=True)
        if text:
            owner.run(conn, self.table, text)
            tables.restore_table_fkey(conn, self.table, self.name, lazy=True)


#: Rows that violate a key are counted up to this number.
_COUNTED = 1_000


def _number(conn: Connection, statement: str) -> str:
    """How many rows a statement finds, in words."""
    counting = f"select count(*) from ({statement} limit {_COUNTED}) as found"  # noqa: S608
    with translated(conn), reading(conn):
        row = conn.execute(counting.encode()).fetchone()
    number = row[0] if row else 0
    return (
        "1 row refers"
        if number == 1
        else f"{number:,}{' or more' * (number == _COUNTED)} rows refer"
    )


def _violations_of(conn: Connection, table: TableName, name: str) -> tuple[str, str] | None:
    """The statement that finds such rows, and the table to which the key refers; None when the key
    does not exist.
    """
    row = first(conn, "foreign_key_violations", table=str(table), name=name)
    return None if row is None else (str(row[0]), str(row[1]))
