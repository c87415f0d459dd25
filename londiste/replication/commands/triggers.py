"""``triggers``: triggers of replicated tables; repair of capture triggers.

User triggers stay on a table while it is copied.  Workers write with ``session_replication_role =
replica``, so only triggers with ENABLE ALWAYS or ENABLE REPLICA fire (``replicated_rows``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.db import catalog
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.db.queries import first, tuples
from londiste.errors import BadOption
from londiste.handlers.table_rules import HandlerAttrs
from londiste.orchestration.connections import Connections
from londiste.orchestration.lock_retry import locked_tables, with_holders, with_table
from londiste.orchestration.plan import CommandPlan
from londiste.orchestration.steps import NodeStep, Step
from londiste.replication import lost_rows, renamed_tables, replicated_rows
from londiste.replication import sqlapi as tables
from londiste.replication.commands import change_form, root_trigger
from londiste.replication.commands.change_handler import trigger_words
from londiste.replication.model import TRIGGERS, ReplicatedTable, TableOptions, with_trigger
from londiste.replication.patterns import named

_FIRES = {"O": "application", "R": "replication", "A": "always", "D": "never"}

#: Where our trigger functions are.
_SCHEMAS = ("londiste_capture.", "londiste.", "pgq.")


@dataclass(frozen=True)
class ListedTrigger:
    """A trigger of a replicated table, or a missing trigger of Londiste.

    kind -- capture, deny, logutriga, jsontriga, sqltriga (Londiste's), or user.
    fires -- for application, replication, always or never.
    on_apply -- whether it fires for rows that the worker writes.
    state -- ok, disabled, lost, stale, locked (by another session: its triggers are not known),
        missing or unnamed (a compatible trigger of a partitioned table that was created without the
        table's name); why -- for all but ok.
    """

    table: str
    trigger: str | None
    kind: str
    fires: str | None
    on_apply: bool
    state: str
    why: str | None
    do: str | None


def collect(conn: Connection, queue: str, names: Sequence[TableName] = ()) -> list[ListedTrigger]:
    """The triggers of the local tables of a queue, or of some (by their names in the queue).

    Raises UnknownTable.
    """
    node = nodes.get_node_info(conn, queue)
    lost = dict(tables.lost_captures(conn, queue))
    strays = dict(tuples(conn, "stray_captures", queue=queue))
    renamed = renamed_tables.find(conn, queue)
    stale = tables.stale_captures(conn, queue)
    captured = change_form.triggers(conn, queue)
    unnamed = {
        TableName.parse(table) for _, table, _ in tuples(conn, "partition_names", queue=queue)
    }
    captures = node.type is not NodeType.LEAF
    locked = {one.name: one for one in with_holders(conn, locked_tables(conn))}
    result = []
    for table in _chosen(conn, queue, names):
        kind = captured.get(table.dest, change_form.Capturing("none")).trigger
        held = locked.get(table.dest)
        found = [] if held else catalog.triggers(conn, table.dest)
        ours = [one for one in found if one.function.startswith(_SCHEMAS)]
        mend = f"londiste triggers --restore {argument(table.name)}"
        why: str | None = None
        listed: tuple[str, str] | None = None
        if table.name in renamed:
            now = renamed[table.name]
            gone = kind in TRIGGERS and kind != "capture"
            what = "its events carry the old name" if captures else "its events are not applied"
            if captures and gone:
                what = "its events carry the new name, which nodes below do not know"
            why = f"the table was renamed to {now.now}: {what}"
            mend = renamed_tables.after_rename(
                table.name,
                now,
                root=node.type is NodeType.ROOT,
                lost=captures and gone,
            )
            listed = ("capture", "renamed")
        elif table.name in lost:
            why = f"the table {lost[table.name]}: its changes are not captured"
            listed = ("capture", "lost")
        elif str(table.name) in strays:
            why = f"changes of {strays[str(table.name)]}, which is not replicated, have its name"
            listed = ("capture", "lost")
        elif kind == "none":
            leaf = node.type is NodeType.LEAF
            effect = "writes are not refused" if leaf else "changes are not captured"
            why = f"added without triggers, or they were dropped: {effect}"
            listed = ("none", "missing")
        if listed is not None:
            what, state = listed
            result.append(ListedTrigger(str(table.dest), None, what, None, False, state, why, mend))
        if held is not None:
            mend = held.after("londiste triggers")
            why = f"{held.why}: its triggers were not checked"
            result.append(
                ListedTrigger(str(table.dest), None, kind, None, False, "locked", why, mend)
            )
        for one in found:
            mine = one in ours
            state, why = "ok", None
            if mine and table.dest in unnamed and _compatible(one):
                state = "unnamed"
                why = "its events name partitions, which other nodes do not have"
            elif mine and one.enabled in "DR" and kind != "capture":
                state, why = "disabled", "it does not fire for applications"
            elif mine and str(table.dest) in stale:
                state, why = _stale(stale[str(table.dest)].kind)
                if state == "locked":
                    mend = "londiste triggers, when that session has ended its transaction"
            result.append(
                ListedTrigger(
                    str(table.dest),
                    one.name,
                    kind if mine else "user",
                    _FIRES.get(one.enabled),
                    one.enabled in "AR" and not mine,
                    state,
                    why,
                    mend if why else None,
                )
            )
    return result


def _stale(kind: str) -> tuple[str, str]:
    """Pure: the state of the triggers of a stale capture, and why."""
    match kind:
        case "locked":
            return "locked", "another session has locked the table: its capture was not checked"
        case "owner":
            return "stale", "its function is not for the present owner of the table"
    return "stale", "the table has changed: capture is slower"


def rows_first(name: str) -> str:
    """Hint for a table of a subscriber whose rows may differ; its name as an argument."""
    return f"londiste compare {name}, and londiste resync {name} where it differs"


def plan(sites: Connections, dsn: str, queue: str, names: Sequence[TableName] = ()) -> CommandPlan:
    """Plans the repair of Londiste's triggers.

    names -- tables; none: all whose triggers are lost, disabled or stale; a table without a trigger
        may have been added so, and is repaired only when named.
    """
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    found = collect(local, queue, names)
    steps: list[Step] = []
    unfit: list[UnfitArgument] = []
    notes = []
    skipped: list[str] = []
    for table in _chosen(local, queue, names):
        states = {one.state for one in found if one.table == str(table.dest)}
        if "renamed" in states:
            (one,) = (o for o in found if o.table == str(table.dest) and o.state == "renamed")
            notes.append(f"table {table.name}: skipped: {one.why}; {one.do}")
            continue
        wanted = {"lost", "disabled", "stale", "unnamed"} | ({"missing"} if names else set())
        if not states & wanted:
            skipped += [
                f"table {table.name}: {one.why}; {one.do}"
                for one in found
                if one.table == str(table.dest) and one.state == "locked"
            ][:1]
            continue
        stale = not states & {"lost", "disabled", "missing", "unnamed"}
        anew: tuple[str, ...] = ()
        if not stale and node.type is not NodeType.LEAF:
            anew = _anew(sites, local, node, table, lost="missing" not in states)
            notes += _unknown(local, node, table, states, anew)
        mend = Mend(node.name, dsn, queue, table.name, table.dest, node.type.value, stale, anew)
        fault = mend.fault(local)
        if fault is not None:
            unfit.append(fault)
            continue
        steps.append(mend)
        if not stale and node.type is not NodeType.LEAF:
            do = (
                f"on every node below: londiste resync {argument(table.name)}; then here:"
                f" {renamed_tables.accept(queue, table.name)}"
                if node.type is NodeType.ROOT
                else f"on this node: {rows_first(argument(table.name))}"
            )
            notes.append(
                f"table {table.name}: changes since its capture was lost are not in the queue; {do}"
            )
    if unfit:
        steps.append(Unfit(node.name, dsn, queue, tuple(unfit)))
    return CommandPlan(tuple(steps), skipped=tuple(skipped), notes=tuple(notes))


def _anew(
    sites: Connections, conn: Connection, node: NodeInfo, table: ReplicatedTable, *, lost: bool
) -> tuple[str, ...]:
    """The words with which ``add-table`` creates the trigger of a table with these attributes.

    A trigger for TRUNCATE that is left of a compatible one shows that it was compatible.

    lost -- the table had a native capture: nodes of Londiste 3 are not searched.
    """
    choice = HandlerAttrs.of(table.attrs)
    root = node.type is NodeType.ROOT
    left = any(
        one.function.startswith("pgq.") and f"('{node.queue}')" in one.definition
        for one in catalog.triggers(conn, table.dest)
    )
    options = TableOptions(
        whole_row="whole_row" in table.attrs,
        choice=choice,
        trigger="logutriga" if left and not lost else "",
    )
    try:
        options.words(root=root)
    except BadOption:
        # Of another program: a handler that this one does not know.
        options = replace(options, choice=replace(choice, handler=""))
    if root and not lost:
        options, _ = root_trigger.choose(sites, conn, node.queue, options, force=False)
    return tuple(with_trigger(options.words(root=root)))


def _unknown(
    conn: Connection,
    node: NodeInfo,
    table: ReplicatedTable,
    states: Collection[str],
    anew: Sequence[str],
) -> list[str]:
    """Notes about what the database does not show any more of the capture of a table."""
    if "missing" in states:
        flags = "".join(word for word in anew if word.startswith("tgflags="))
        kind = next(kind for kind, letter in TRIGGERS.items() if letter in flags)
        return [
            f"table {table.name}: no trigger shows how it was captured; it gets {kind} without"
            f" options; to choose another one: londiste change-form {argument(table.name)}"
            " --trigger KIND"
        ]
    native, options = _native_options(conn, node.queue, table.dest)
    if not native or options is not None:
        return []
    function = f"londiste.create_capture('{node.queue}', '{table.dest}', '{{ignore=COLUMN}}'"
    if table.dest != table.name:
        function += f", '{table.name}'"
    return [
        f"table {table.name}: its capture had no trigger left, which would show options as pkey=,"
        f" ignore= and when=; to set them again: select {function})"
    ]


def _native_options(
    conn: Connection, queue: str, dest: TableName
) -> tuple[bool, Sequence[str] | None]:
    """Whether a table has what is left of a native capture, and its options; None: not known."""
    row = first(conn, "capture_options", queue=queue, table=str(dest))
    return (False, None) if row is None else (True, row[0])


@dataclass(frozen=True)
class UnfitArgument:
    """A table whose trigger cannot be recreated: an argument does not fit.

    fault -- why; help -- the statement that creates it again with the same arguments.
    """

    table: TableName
    argument: str
    fault: str
    help: str


@dataclass(frozen=True)
class Unfit(NodeStep):
    """Ends the command with the tables that stay as they are; the last step."""

    tables: tuple[UnfitArgument, ...]

    def describe(self) -> str:
        names = ", ".join(str(one.table) for one in self.tables)
        return f"{self.node}: refuse the triggers of {names}: their arguments do not fit"

    def done(self, sites: Connections) -> bool:
        return False

    def run(self, sites: Connections) -> None:
        """Raises BadOption."""
        names = ", ".join(str(one.table) for one in self.tables)
        raise BadOption(
            f"trigger arguments do not fit their tables: {names}",
            detail="; ".join(f"{one.table}: {one.argument}: {one.fault}" for one in self.tables),
            hint="in psql, with the arguments corrected: "
            + "; ".join(one.help for one in self.tables),
        )


@dataclass(frozen=True)
class Mend(NodeStep):
    """Recreates the triggers of one table, with the options that can still be read.

    anew -- the words for a trigger of which nothing can be read.
    """

    table: TableName
    dest: TableName
    node_type: str
    stale: bool
    anew: tuple[str, ...]

    def describe(self) -> str:
        return f"{self.node}: recreate the triggers of table {self.table}"

    def done(self, sites: Connections) -> bool:
        found = collect(sites.at(self.dsn), self.queue, [self.table])
        return all(one.state == "ok" for one in found)

    def fault(self, conn: Connection) -> UnfitArgument | None:
        """The argument for which the database would refuse the trigger."""
        if self.node_type == "leaf":
            return None
        found = first(
            conn,
            "argument_fault",
            queue=self.queue,
            table=str(self.table),
            dest=str(self.dest),
            words=list(self._words(conn)),
            node_type=self.node_type,
        )
        return None if found is None else UnfitArgument(self.table, *found)

    def run(self, sites: Connections) -> None:
        """Raises LockTimeout when the table stays locked."""
        with_table(sites, self.dsn, self.dest, self.node, self._work)

    def _work(self, conn: Connection) -> None:
        if self.stale:
            tables.refresh_capture(conn, self.queue, self.dest)
            return
        words = [] if self.node_type == "leaf" else self._words(conn)
        always = replicated_rows.always_kinds(conn, self.queue, self.dest)
        # What is left of them, disabled, would otherwise pass for being there.
        tables.drop_table_triggers(conn, self.queue, self.table)
        tables.create_trigger(conn, self.queue, self.table, words, self.dest, self.node_type)
        if always and self.node_type != "leaf":
            replicated_rows.fire_always(conn, self.queue, self.dest)
        if self.node_type == "root":
            lost_rows.note(conn, self.queue, self.table)

    def _words(self, conn: Connection) -> Sequence[str]:
        """The words for ``londiste.create_trigger``: the same kind with the same options."""
        native, options = _native_options(conn, self.queue, self.dest)
        if native:
            known = self.anew if options is None else options
            return [*(word for word in known if not word.startswith("tgflags=")), "tgflags=C"]
        now = change_form.triggers(conn, self.queue).get(self.dest)
        if now is not None and now.trigger in TRIGGERS:
            # A compatible one, which is made again as it is.
            return trigger_words(conn, self.queue, self.dest)
        return self.anew


def _compatible(one: catalog.Trigger) -> bool:
    return one.function.removeprefix("pgq.") in TRIGGERS and " for each row " in (
        one.definition.lower()
    )


def _chosen(conn: Connection, queue: str, names: Sequence[TableName]) -> list[ReplicatedTable]:
    return named([t for t in tables.get_table_list(conn, queue) if t.local], names)
