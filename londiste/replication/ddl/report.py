"""Report on scripts: forecast and state on all nodes of the cascade; read-only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeVar

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import Member, NodeType
from londiste.db.connection import Connection, session
from londiste.db.names import TableName
from londiste.db.queries import tuples
from londiste.errors import InstallError, LondisteError
from londiste.orchestration.connections import reach, side_by_side
from londiste.replication import sqlapi as tables
from londiste.replication.ddl import sqlapi as state
from londiste.replication.ddl.classify import StatementTiming
from londiste.replication.ddl.execute import wanted_here
from londiste.replication.ddl.locks import KEEPS_OUT, ROW_EXCLUSIVE, SHARE_ROW, foresee, truncated
from londiste.replication.ddl.publish import Planned
from londiste.replication.ddl.split import Statement
from londiste.replication.ddl.sqlapi import Script

T = TypeVar("T")

#: When a part runs on a node, in words.
WAYS = {
    StatementTiming.BATCH: "in the transaction of its batch",
    StatementTiming.FIRST: "in a transaction of its own, before its batch",
    StatementTiming.AFTER: "in no transaction, after its batch; other rows are applied during it",
}


@dataclass(frozen=True)
class Foreseen:
    """One statement of a part.

    table -- as the statement names it; all of a TRUNCATE, also those that it reaches by CASCADE.
    keeps_out -- the sessions that wait for its lock.
    replicated -- the capture of one of them is recreated in the same transaction.
    """

    number: int
    line: int
    statement: str
    table: str
    lock: str
    keeps_out: str
    rewrites: str
    reads: str
    replicated: bool


@dataclass(frozen=True)
class OnNode:
    """One node, and the outcome of a part there."""

    node: str
    what: str


@dataclass(frozen=True)
class Explained:
    """One part."""

    script: str
    runs: str
    statements: Sequence[Foreseen]
    nodes: Sequence[OnNode]


@dataclass(frozen=True)
class NodeScript:
    """State of one script on one node."""

    node: str
    script: str
    state: str
    since: datetime | None
    statement: int | None
    error: str | None


def explain(
    dsn: str, queue: str, planned: Sequence[Planned], *, extra: str, local: bool
) -> list[Explained]:
    """The locks of each part, and the nodes on which it would run."""
    with session(dsn, name="londiste execute", autocommit=True) as conn:
        me = nodes.get_node_info(conn, queue)
        replicated = {
            str(table.dest) for table in tables.get_table_list(conn, queue) if table.local
        }
        emptied = {
            (number, index): _emptied(conn, statement)
            for number, one in enumerate(planned)
            for index, statement in enumerate(one.part.statements)
        }
    members = _members(dsn, queue)
    if local:
        members = [m for m in members if m.name == me.name]

    def decide(node: str, conn: Connection) -> list[str]:
        known = {script.name: script for script in state.get_scripts(conn, queue)}
        return [_what(conn, queue, node, one, known) for one in planned]

    answers = ask(members, me.name, dsn, extra, decide)
    found = []
    for index, one in enumerate(planned):
        on = [
            OnNode(name, answer if isinstance(answer, str) else answer[index])
            for name, answer in answers
        ]
        statements = [
            _foreseen(one, number, replicated, emptied[index, number], root=not local)
            for number in range(len(one.part.statements))
        ]
        found.append(Explained(one.part.name, WAYS[one.part.way], statements, on))
    return found


def status(dsn: str, queue: str, *, extra: str) -> tuple[list[NodeScript], list[tuple[str, str]]]:
    """State of every recorded script on each node, in the order of execution.

    And the nodes whose scripts are unknown, with the reason.
    """
    with session(dsn, name="londiste execute", autocommit=True) as conn:
        me = nodes.get_node_info(conn, queue).name

    def look(node: str, conn: Connection) -> _Known:
        others = {}
        if is_root := nodes.is_root_node(conn, queue):
            for (other,) in tuples(conn, "queues_of_nodes"):
                others[other] = state.get_scripts(conn, other) if other != queue else []
        return _Known(state.get_scripts(conn, queue), is_root, others)

    answers = ask(_members(dsn, queue), me, dsn, extra, look)
    texts: dict[str, str] = {}
    for _, answer in answers:
        if not isinstance(answer, str):
            for script in answer.scripts:
                texts.setdefault(script.name, script.sql)
    rows = [
        NodeScript(node, name, "unknown", None, None, answer)
        if isinstance(answer, str)
        else _on_node(node, name, text, answer)
        for name, text in texts.items()
        for node, answer in answers
    ]
    return rows, [(node, answer) for node, answer in answers if isinstance(answer, str)]


class _Known(NamedTuple):
    """The scripts of a node.  others -- of the other queues of a root: no queue brings it any."""

    scripts: list[Script]
    is_root: bool
    others: Mapping[str, list[Script]]


def _on_node(node: str, name: str, text: str, known: _Known) -> NodeScript:
    """Pure: the state of a script with this text on a node that answers."""
    mine, through = next((s for s in known.scripts if s.name == name), None), ""
    for queue, scripts in known.others.items():
        for script in scripts:
            if mine is None and (script.name, script.sql) == (name, text):
                mine, through = script, f" through queue {queue}"
    if mine is None:
        absent = "not run here" if known.is_root else "not reached yet"
        return NodeScript(node, name, absent, None, None, None)
    since = mine.finished_at or mine.started_at
    return NodeScript(node, name, f"{mine.state.value}{through}", since, mine.statement, mine.error)


def ask(
    members: Sequence[Member],
    me: str,
    dsn: str,
    extra: str,
    question: Callable[[str, Connection], T],
) -> list[tuple[str, T | str]]:
    """The results of all members, queried concurrently; a text: why there is none."""

    def one(member: Member) -> tuple[str, T | str]:
        if member.dead:
            return member.name, "tagged dead"
        try:
            location = dsn if member.name == me else reach(member.location, extra, node=member.name)
            with session(location, name="londiste execute", autocommit=True) as conn:
                return member.name, question(member.name, conn)
        except InstallError:
            return (
                member.name,
                "its SQL does not support scripts: on that node: londiste install --adopt",
            )
        except LondisteError as error:
            return member.name, f"no response: {error.message}"

    return side_by_side(one, members)


def _members(dsn: str, queue: str) -> list[Member]:
    with session(dsn, name="londiste execute", autocommit=True) as conn:
        root = nodes.get_node_info(conn, queue)
        found = nodes.get_queue_locations(conn, queue)
    first = root.name if root.type is NodeType.ROOT else ""
    return sorted(found, key=lambda member: (member.name != first, member.name))


def _what(conn: Connection, queue: str, node: str, one: Planned, known: dict[str, Script]) -> str:
    before = known.get(one.part.name)
    if before is not None and before.sql != one.part.text:
        return "refused: a different script of this name has run here"
    if before is not None and before.state.over:
        return f"skipped: {before.state.value} here"
    try:
        wanted = wanted_here(conn, queue, one.part.name, one.attrs, node=node)
    except LondisteError as error:
        return f"fails: {error.message}"
    return "runs" if wanted else "skipped: its conditions do not hold here"


def _emptied(conn: Connection, statement: Statement) -> list[str]:
    """The tables that a TRUNCATE names, and those that it reaches by CASCADE."""
    names, cascades = truncated(statement)
    if not names or not cascades:
        return names
    full = [TableName.parse(_full(name)) for name in names]
    reached = tuples(
        conn,
        "truncate_cascade",
        schemas=[name.schema for name in full],
        names=[name.name for name in full],
    )
    return [*names, *(str(TableName(schema, name)) for schema, name in reached)]


def _full(name: str) -> str:
    return name if "." in name else f"public.{name}"


def _foreseen(
    one: Planned, index: int, replicated: set[str], emptied: Sequence[str], *, root: bool
) -> Foreseen:
    statement = one.part.statements[index]
    effect = foresee(statement)
    named = emptied or [effect.table]
    known = any(_full(name) in replicated for name in named)
    # The root locks the tables that a script writes.
    lock = SHARE_ROW if root and known and effect.lock == ROW_EXCLUSIVE else effect.lock
    return Foreseen(
        statement.number,
        statement.line,
        statement.shown,
        ", ".join(named),
        lock,
        KEEPS_OUT.get(lock, ""),
        effect.rewrites,
        effect.reads,
        known and effect.lock in KEEPS_OUT,
    )
