"""Actions of a plan carried out by the functions of the commands: create-root, add-table, ….

Each function asks the nodes again what is left to do, so an interrupted action continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands import create_node, upstream
from londiste.cascade.commands.create_node import NewNode
from londiste.cascade.model import NodeType
from londiste.cascade.switching import change_provider, drop_node, switchover
from londiste.cascade.switching.cluster_lock import lock
from londiste.cascade.switching.cluster_state import ClusterState, Warn, look
from londiste.cascade.switching.steps.notes import one_at_a_time
from londiste.cascadefile.action import Action, Kind
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName, word
from londiste.handlers import registry, table_rules
from londiste.handlers.table_rules import HandlerAttrs
from londiste.install.apply import install
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.pgq import admin, config
from londiste.replication import sqlapi as tables
from londiste.replication.commands import (
    add_table,
    change_handler,
    change_policy,
    remove_table,
    sequences,
)
from londiste.replication.commands.add_table_checks import TableInCopy
from londiste.replication.commands.registry_sync import CopyRegistry
from londiste.replication.failover import readiness, reroute
from londiste.replication.failover.switchover_sequences import carry
from londiste.replication.model import TableOptions
from londiste.replication.patterns import escaped
from londiste.replication.registration_filter import RegistrationFilter
from londiste.replication.tablesync import wait
from londiste.settings import NodeSettings
from londiste.settings.cascade_file import CascadeFile

#: Actions on several nodes: a server that is silent for long counts as unreachable.
_BOUNDED = frozenset({Kind.CREATE, Kind.MOVE, Kind.SWITCHOVER, Kind.DROP})


@dataclass(frozen=True)
class Performer:
    """Carries out actions.

    settings -- of each node of the file.
    timeout -- seconds for each wait; block -- seconds without writes in a switchover.
    allow_resync -- a moved node may copy tables again.
    report -- called after each step; warn -- for notices.
    """

    sites: Connections
    file: CascadeFile
    settings: Callable[[str], NodeSettings]
    report: Callable[[Step], None]
    warn: Warn
    timeout: float = 60.0
    block: float = 10.0
    allow_resync: bool = False

    def perform(self, action: Action) -> int:
        """Runs what is left of an action; the number of steps."""
        if action.kind not in _BOUNDED:
            return self._perform(action)
        settings = self.settings(self.file.root.name)
        try:
            with self.sites.answering(settings.answer_seconds):
                return self._perform(action)
        finally:
            # The next action may wait for a copy, and a failover must not wait for that.
            self.sites.release()

    def _perform(self, action: Action) -> int:
        match action.kind:
            case Kind.INSTALL:
                return len(install(self.sites.at(self._dsn(action.node))))
            case Kind.CREATE:
                return self._run(self._create(action))
            case Kind.SET_QUEUE:
                return self._set_queue(action)
            case Kind.ADD:
                return self._run(self._add(action))
            case Kind.ADD_SEQ:
                return self._run(self._add_sequences(action))
            case Kind.RULE:
                return self._run(self._rule(action))
            case Kind.POLICY:
                found = change_policy.plan(*self._at(action.node), action.tables, action.policy)
                return self._run(found.steps)
            case Kind.WAIT:
                self._wait(self.sites.at(self._dsn(action.node)), self.file.queue)
                return 1
            case Kind.SWITCHOVER:
                return self._switchover(action)
            case Kind.MOVE:
                return self._move(action)
            case Kind.REMOVE:
                found = remove_table.plan(
                    *self._at(action.node), action.tables, force=True, keep=action.sequences
                )
                return self._run(found.steps)
            case Kind.REMOVE_SEQ:
                names = list(map(escaped, action.sequences))
                found = sequences.plan_remove(*self._at(action.node), names, force=True)
                return self._run(found.steps)
            case Kind.DROP:
                steps = drop_node.drop(self.sites, self._locked(), action.node, force=False)
                return self._run(steps, alone=True)

    def _run(self, steps: Sequence[Step], *, alone: bool = False) -> int:
        if alone:
            one_at_a_time(self.sites, steps)
        return plan.execute(steps, self.sites, self.report)

    def _dsn(self, node: str) -> str:
        """The database of a node, which may be missing in the file."""
        if node in self.file.nodes:
            return self.file.nodes[node].db
        return self._scene().place(node).dsn

    def _at(self, node: str) -> tuple[Connections, str, str]:
        return self.sites, self._dsn(node), self.file.queue

    def _scene(self) -> ClusterState:
        """The cascade as it is now, asked at the first node that is one."""
        return look(self.sites, *self._entry())

    def _locked(self) -> ClusterState:
        """The same, locked for this action."""
        seen = look(self.sites, *(entry := self._entry()))
        return lock(self.sites, seen, entry[-1])

    def _entry(self) -> tuple[str, str, str]:
        """What ``look`` asks: database, queue, and parameters of the other nodes."""
        for section in self.file.nodes.values():
            if nodes.find_node_info(self.sites.at(section.db), self.file.queue) is not None:
                break
        extra = self.settings(section.name).remote_extra_connstr
        return section.db, self.file.queue, extra

    def _create(self, action: Action) -> list[Step]:
        section = self.file.nodes[action.node]
        kind = NodeType(action.role)
        node = NewNode(
            self.file.queue, kind, section.name, section.db, section.location, section.worker
        )
        if kind is NodeType.ROOT:
            return create_node.create_root(self.sites, node)
        provider = self._dsn(action.other)
        upstream.hold_upstream(self.sites, node.queue, provider)
        make = create_node.create_leaf if kind is NodeType.LEAF else create_node.create_branch
        steps = make(self.sites, node, provider)
        wanted = RegistrationFilter.of(self.settings(section.name))
        registry_step = CopyRegistry(
            node.name, action.other, provider, node.dsn, node.queue, wanted
        )
        return [*steps, registry_step]

    def _set_queue(self, action: Action) -> int:
        conn = self.sites.at(self._dsn(action.node))
        given = dict(action.values)
        values = {key: config.value(key, text) for key, text in given.items()}
        with conn.transaction():
            for change in admin.configuring(conn, self.file.queue, values):
                change.act(conn)
        return len(values)

    def _add(self, action: Action) -> Sequence[Step]:
        section = self.file.tables
        assert section is not None
        root = action.role == "root"
        choice = _choice(action)
        # A handler may name the table that gets the rows.
        dest = registry.make(choice.handler).dest
        options = TableOptions(
            dest=TableName.parse(dest) if dest else None,
            create=not root and section.create == "columns",
            create_full=not root and section.create == "full",
            create_needs=not root and section.create == "full",
            allow_code=section.allow_code,
            copy_mode="" if root else section.copy_mode,
            insert_only=section.keyless == "insert_only",
            whole_row=section.keyless == "whole_row",
            choice=choice,
        )
        wanted = RegistrationFilter.of(self.settings(action.node))
        while True:
            try:
                found = add_table.plan(
                    *self._at(action.node), action.tables, options, wanted=wanted
                )
                break
            except TableInCopy as busy:
                # The provider's own copy has begun before the table is created here.
                self.warn(
                    f"{action.node}: waits for the copy of table {busy.table} into"
                    f" {describe_dsn(busy.conn.info.dsn)}"
                )
                self._wait(busy.conn, busy.queue, [busy.table])
        for line in found.notes:
            self.warn(line)
        return found.steps

    def _add_sequences(self, action: Action) -> Sequence[Step]:
        section = self.file.tables
        assert section is not None
        found = sequences.plan_add(
            *self._at(action.node),
            list(map(escaped, action.sequences)),
            create=action.role != "root" and section.create != "no",
            wanted=RegistrationFilter.of(self.settings(action.node)),
        )
        return found.steps

    def _wait(self, conn: Connection, queue: str, only: Sequence[TableName] = ()) -> None:
        """Waits for tables of a node, and names it in what is reported."""
        name = nodes.get_node_info(conn, queue).name
        start = f"londiste worker --node {word(name)}"
        if queue != self.file.queue:
            start = f"londiste -c FILE worker (settings of queue {queue})"
        wait.wait_sync(
            conn,
            queue,
            timeout=None,
            only=only,
            trouble=lambda text: self.warn(f"{name}: {text}"),
            start=start,
        )

    def _rule(self, action: Action) -> Sequence[Step]:
        choice = _choice(action).attrs()
        filters = {
            key: choice.get(key, "")
            for key in (table_rules.WHERE, table_rules.COLUMNS, table_rules.SKIP_COLUMNS)
        }
        conn = self.sites.at(self._dsn(action.node))
        known = tables.get_tables(conn, self.file.queue, action.tables)
        if action.role == "root":
            filters = {
                k: v for k, v in filters.items() if any(k in t.attrs for t in known.values())
            }
        handler = choice.get(table_rules.HANDLER, "")
        found = change_handler.plan(*self._at(action.node), action.tables, handler, filters)
        return found.steps

    def _move(self, action: Action) -> int:
        scene = self._locked()
        steps = change_provider.change_provider(
            self.sites,
            scene,
            action.node,
            action.other,
            timeout=self.timeout,
            warn=self.warn,
            guard=reroute.guard(self.sites, scene, force=self.allow_resync, warn=self.warn),
        )
        return self._run(steps, alone=True)

    def _switchover(self, action: Action) -> int:
        scene = self._locked()
        switch = switchover.prepare(
            self.sites,
            scene,
            action.node,
            carry=lambda old, new: carry(scene.queue, old, new),
            timeout=self.timeout,
            block=self.block,
            warn=self.warn,
        )
        if switch is None:
            return 0
        if switch.closing:
            readiness.check(self.sites, scene, action.node, switch.old, force=False, warn=self.warn)
        one_at_a_time(self.sites, switch.steps())
        return switchover.execute(switch, self.sites, self.report)


def _choice(action: Action) -> HandlerAttrs:
    """The rule of an action as options of a command."""
    attrs = dict(action.attrs)
    return HandlerAttrs.of({**attrs, table_rules.ON_ERROR: action.policy})
