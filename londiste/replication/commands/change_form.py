"""``change-form``: the trigger and the capture mode of tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.db.queries import tuples
from londiste.errors import BadOption, UsageError
from londiste.orchestration.connections import Connections
from londiste.orchestration.lock_retry import with_table
from londiste.orchestration.plan import CommandPlan
from londiste.orchestration.steps import NodeStep, Step
from londiste.replication import sqlapi as tables
from londiste.replication.commands import root_trigger
from londiste.replication.model import TRIGGERS
from londiste.replication.patterns import select, unknown_table

FORMS = ("row", "statement", "auto")


@dataclass(frozen=True)
class Capturing:
    """How one table is captured on this node.

    trigger -- capture (native), logutriga, jsontriga, sqltriga, deny (a leaf refuses writes) or
        none.
    form -- row or statement, for the native capture; None for the others.
    reason -- why it has that mode.
    key_given -- the trigger has the argument pkey=; key -- its value.
    asked -- row, statement or auto, as requested.
    """

    trigger: str
    form: str | None = None
    reason: str | None = None
    asked: str | None = None
    key_given: bool = False
    key: str = ""


def triggers(conn: Connection, queue: str) -> dict[TableName, Capturing]:
    """How the local tables of a queue are captured, by their names here; without modes."""
    return {
        TableName.parse(name): Capturing(
            trigger, asked=asked, key_given=key is not None, key=key or ""
        )
        for name, trigger, asked, key in tuples(conn, "capture_triggers", queue=queue)
    }


def capturing(conn: Connection, queue: str) -> dict[TableName, Capturing]:
    """The same with the mode of each capture and the reason for it."""
    found = triggers(conn, queue)
    for one in tables.capture_forms(conn, queue):
        if one.table in found:
            found[one.table] = replace(found[one.table], form=one.form, reason=one.reason)
    return found


def plan(
    sites: Connections, dsn: str, queue: str, patterns: Sequence[str], form: str
) -> CommandPlan:
    """Plans changing the capture mode of tables of the root at ``dsn``.  Changes nothing.

    patterns -- names, or patterns with * and ?.

    Raises BadOption, UnknownTable, UsageError (not the root, another trigger).
    """
    if form not in FORMS:
        raise BadOption(
            f"{form or 'no mode'}: unknown capture mode",
            hint="end the command with row, statement or auto: londiste change-form TABLE row",
        )
    if not patterns:
        raise BadOption("no table given", hint=f"londiste change-form TABLE... {form}")
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    if node.type is not NodeType.ROOT:
        raise UsageError(
            f"node {node.name} is a {node.type.value}: it captures no changes of its own",
            hint="run the command on the root; londiste members shows it",
        )
    known = {t.name: t.dest for t in tables.get_table_list(local, queue) if t.local}

    unknown = unknown_table("replicated here", known)
    picked = select(patterns, list(known), [], unknown, force=False)
    now = triggers(local, queue)
    steps: list[Step] = []
    already: list[TableName] = []
    for name in picked.chosen:
        how = now.get(known[name], Capturing("none"))
        if how.trigger != "capture":
            raise UsageError(
                f"table {name} has no capture mode: its trigger is {how.trigger}",
                detail="row and statement are modes of the native capture; nothing was changed",
                hint=f"londiste change-form {argument(name)} --trigger capture",
            )
        step = ChangeForm(node.name, dsn, queue, name, known[name], form)
        if how.asked == form:
            already.append(name)
        else:
            steps.append(step)
    return CommandPlan(tuple(steps), tuple(already))


def plan_trigger(
    sites: Connections,
    dsn: str,
    queue: str,
    patterns: Sequence[str],
    trigger: str,
    *,
    every: bool = False,
    force: bool = False,
) -> CommandPlan:
    """Plans changing the trigger of tables of the node at ``dsn``.  Changes nothing.

    patterns -- names, or patterns with * and ?; every -- all captured tables instead.
    force -- no node has a worker of Londiste 3, whatever the check shows.

    Raises BadOption, UnknownTable, UsageError (a leaf, nodes of Londiste 3 below).
    """
    if every == bool(patterns):
        raise BadOption(
            "no table given" if not every else "--all excludes table names",
            hint=f"londiste change-form --all --trigger {trigger}",
        )
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    if node.type is NodeType.LEAF:
        raise UsageError(
            f"node {node.name} is a leaf: it captures no changes",
            hint="run the command on the root; londiste members shows it",
        )
    if trigger == "capture" and not force:
        names = root_trigger.unable(sites, local, queue)
        if names:
            raise root_trigger.cannot_read(names)
    known = {t.name: t.dest for t in tables.get_table_list(local, queue) if t.local}
    now = triggers(local, queue)
    captured = [name for name, dest in known.items() if now[dest].trigger not in {"none", "deny"}]

    unknown = unknown_table("captured here", captured, hint="londiste tables -v")
    chosen = captured if every else select(patterns, captured, [], unknown, force=False).chosen
    steps = [
        ChangeTrigger(node.name, dsn, queue, name, known[name], trigger)
        for name in chosen
        if now[known[name]].trigger != trigger
    ]
    already = [name for name in chosen if now[known[name]].trigger == trigger]
    return CommandPlan(tuple(steps), tuple(already))


@dataclass(frozen=True)
class ChangeTrigger(NodeStep):
    """Changes the trigger of one table."""

    table: TableName
    dest: TableName
    trigger: str

    def describe(self) -> str:
        return f"{self.node}: capture table {self.table} with {self.trigger}"

    def done(self, sites: Connections) -> bool:
        now = triggers(sites.at(self.dsn), self.queue).get(self.dest)
        return now is not None and now.trigger == self.trigger

    def run(self, sites: Connections) -> None:
        """Raises LockTimeout when the table stays locked for ``sites.lock_timeout`` seconds."""

        def change(conn: Connection) -> bool:
            return tables.change_trigger(conn, self.queue, self.table, TRIGGERS[self.trigger])

        with_table(sites, self.dsn, self.dest, self.node, change)


@dataclass(frozen=True)
class ChangeForm(NodeStep):
    """Changes the capture mode of one table."""

    table: TableName
    dest: TableName
    form: str

    def describe(self) -> str:
        return f"{self.node}: capture table {self.table} in mode {self.form}"

    def done(self, sites: Connections) -> bool:
        now = triggers(sites.at(self.dsn), self.queue).get(self.dest)
        return now is not None and now.asked == self.form

    def run(self, sites: Connections) -> None:
        """Raises LockTimeout when the table stays locked for ``sites.lock_timeout`` seconds."""

        def change(conn: Connection) -> bool:
            return tables.change_form(conn, self.queue, self.dest, self.form)

        with_table(sites, self.dsn, self.dest, self.node, change)
