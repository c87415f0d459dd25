"""Statements about nodes, tables and sequences: a function each, with its form and line of help."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from londiste.cascade import copied_database
from londiste.cascade import sqlapi as nodes
from londiste.db.names import TableName
from londiste.db.queries import tuples
from londiste.errors import BadOption, UnknownNode, UnknownTable
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.orchestration.plan import CommandPlan
from londiste.replication import sqlapi as registered
from londiste.replication.commands import add_table, remove_table, sequences
from londiste.replication.model import TableOptions
from londiste.shell.language import Forms
from londiste.shell.session import Result, Session
from londiste.wording import did_you_mean

FORMS = Forms()

#: Options of ``londiste add table … with``.
TABLE_OPTIONS = (
    "skip_truncate",
    "tgflags",
    "expect_sync",
    "no_triggers",
    "backup",
    "skip",
    "when",
    "ev_type",
    "ev_data",
    "ev_extra1",
    "ev_extra2",
    "ev_extra3",
    "ev_extra4",
)


@FORMS.statement("show node [<node*:node>] [on <queue:queue>]", "list nodes of the cascade")
def show_node(session: Session, node: str | None = None, queue: str | None = None) -> Result:
    local = nodes.get_node_info(session.conn, session.chosen(queue))
    members = nodes.get_queue_locations(session.conn, session.chosen(queue))
    names = [one.name for one in members]
    if node not in (None, "*", *names):
        raise UnknownNode(
            f"no node {node} of queue {session.chosen(queue)}",
            hint=did_you_mean(str(node), names, "nodes: " + ", ".join(names)),
        )
    wanted = local.name if node is None else node
    facts = [local.type, local.provider, local.last_tick, local.paused]
    return Result(
        ("node", "type", "provider", "last_tick", "paused", "location", "dead"),
        [
            [one.name, *(facts if one.name == local.name else [None] * 4), one.location, one.dead]
            for one in members
            if wanted in ("*", one.name)
        ],
    )


@FORMS.statement("show table <table:table>", "show a replicated table")
def show_table(session: Session, table: str) -> Result:
    name = TableName.parse(table)
    rows: list[Sequence[object]] = []
    for queue in _queues_of_nodes(session):
        for one in registered.get_table_list(session.conn, queue):
            if name in (one.name, one.dest):
                rows.append(
                    [f"queue {queue}", one.state or ("-" if one.local else "not on this node")]
                )
                rows += [[f"attribute {key}", value] for key, value in one.attrs.items()]
    found = tuples(session.conn, "table_triggers_by_name", relation=name.quoted)
    rows += [[f"trigger {trigger}", text] for trigger, text in found]
    if not rows:
        if not tuples(session.conn, "relation_name", relation=name.quoted):
            raise UnknownTable(f"no table {name}", hint="londiste tables; londiste missing")
        rows = [["not replicated", f"londiste add table {name}"]]
    return Result(("of the table", "value"), rows)


@FORMS.statement("show sequence <sequence:sequence>", "show a replicated sequence")
def show_sequence(session: Session, sequence: str) -> Result:
    name = TableName.parse(sequence)
    rows = [
        [queue, one.local, one.last_value]
        for queue in _queues_of_nodes(session)
        for one in registered.get_seq_list(session.conn, queue)
        if one.name == name
    ]
    if not rows:
        raise UnknownTable(f"no sequence {name} is replicated", hint="londiste seqs")
    return Result(("queue", "local", "published"), rows)


@FORMS.statement("londiste add table <table,:names> [with <options:options>]", "replicate tables")
def add_tables(
    session: Session, names: Sequence[str], options: dict[str, str | None] | None = None
) -> Result:
    wanted = table_options(options or {})
    return _on_nodes(session, functools.partial(add_table.plan, patterns=names, options=wanted))


@FORMS.statement("londiste add sequence <sequence,:names>", "replicate sequences")
def add_sequences(session: Session, names: Sequence[str]) -> Result:
    return _on_nodes(session, functools.partial(sequences.plan_add, patterns=names))


@FORMS.statement("londiste remove table <table,:names>", "stop replicating tables")
def remove_tables(session: Session, names: Sequence[str]) -> Result:
    return _on_nodes(session, functools.partial(remove_table.plan, patterns=names))


@FORMS.statement("londiste remove sequence <sequence,:names>", "stop replicating sequences")
def remove_sequences(session: Session, names: Sequence[str]) -> Result:
    return _on_nodes(session, functools.partial(sequences.plan_remove, patterns=names))


@FORMS.statement("londiste tables", "list replicated tables and their states")
def list_tables(session: Session) -> Result:
    rows = [
        [
            str(table.name),
            table.state,
            ", ".join(f"{key}={value}" for key, value in table.attrs.items()) or None,
            str(table.dest),
        ]
        for table in registered.get_table_list(session.conn, _queue_of_node(session))
        if table.local
    ]
    return Result(("table", "state", "attributes", "here"), rows)


@FORMS.statement("londiste seqs", "list replicated sequences")
def list_sequences(session: Session) -> Result:
    found = registered.get_seq_list(session.conn, _queue_of_node(session))
    rows = [[str(one.name), one.local, one.last_value] for one in found]
    return Result(("sequence", "local", "published"), rows)


@FORMS.statement("londiste missing", "list tables that are not replicated")
def list_missing(session: Session) -> Result:
    words = {"r": "table", "S": "sequence"}
    found = registered.local_show_missing(session.conn, _queue_of_node(session))
    return Result(("kind", "name"), [[words.get(one.kind, one.kind), one.name] for one in found])


def table_options(given: dict[str, str | None]) -> TableOptions:
    """The options of ``londiste add table``; BadOption for an unknown one."""
    for name, value in given.items():
        if name not in TABLE_OPTIONS:
            raise BadOption(f"no option {name}", hint="options: " + ", ".join(TABLE_OPTIONS))
        takes_value = name in {"tgflags", "when"} or name.startswith("ev_")
        if takes_value == (value is None):
            raise BadOption(
                f"option {name} " + ("needs a value" if takes_value else "takes no value"),
                hint=f"write {name}='…'" if takes_value else f"write {name}",
            )
    own = {"tgflags", "expect_sync", "skip_truncate", "no_triggers"}
    return TableOptions(
        expect_sync="expect_sync" in given,
        skip_truncate="skip_truncate" in given,
        triggers="no_triggers" not in given,
        trigger_flags=given.get("tgflags") or "",
        trigger_args=tuple(
            name if value is None else f"{name}={value}"
            for name, value in given.items()
            if name not in own
        ),
    )


def _on_nodes(session: Session, planned: Callable[[Connections, str, str], CommandPlan]) -> Result:
    """Executes a plan for the current queue, at all nodes that it needs."""
    queue = session.chosen()
    session.outside("londiste")
    with Connections(name="londiste shell") as sites:
        copied_database.refuse(sites.at(session.dsn), queue, sites.reach)
        todo = planned(sites, session.dsn, queue)
        done: list[str] = []
        plan.execute(todo.steps, sites, lambda step: done.append(step.describe()))
    return Result(lines=[*done, *(f"{name}: done before" for name in todo.already)])


def _queue_of_node(session: Session) -> str:
    """The current queue, of which the database is a node."""
    queue = session.chosen()
    nodes.get_node_info(session.conn, queue)
    return queue


def _queues_of_nodes(session: Session) -> list[str]:
    """The current queue; without one all of which the database is a node."""
    if not tuples(session.conn, "relation_exists", relation="londiste.table_info")[0][0]:
        return []
    if session.queue:
        return [session.queue]
    return [str(name) for (name,) in tuples(session.conn, "queues_of_nodes")]
