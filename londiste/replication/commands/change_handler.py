"""``change-handler``: changes attributes and trigger of tables together.

Where the set of rows changes, the table is copied again: added rows come with the copy, the others
are deleted with the old ones.  Below a branch the table is copied again on every node, after the
branch's own copy.  Until all of them are set to do so, the table of the branch has the attribute
``COPY_BELOW``, which is stored with the change: an interrupted command is found and continued.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.db import catalog
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName, argument
from londiste.db.queries import first
from londiste.db.session_role import use_replica_role
from londiste.errors import BadOption, StateError, UnknownTable
from londiste.handlers import registry, table_rules
from londiste.handlers.base import ALL, TableRules
from londiste.orchestration.connections import Connections
from londiste.orchestration.lock_retry import with_table
from londiste.orchestration.plan import CommandPlan
from londiste.orchestration.steps import NodeStep, Step
from londiste.replication import sqlapi as tables
from londiste.replication.commands import filter_checks
from londiste.replication.model import (
    COPY_BELOW,
    FORGET,
    ReplicatedTable,
    encode_attrs,
    with_copy_mode,
    with_trigger,
)
from londiste.replication.patterns import Pattern, select, unknown_table
from londiste.replication.tablesync import child_rows, copied_rows, copy_source
from londiste.replication.tablesync.cancel import CopiedBelow, CopyAgain, copy_error

_LETTERS = {"jsontriga": "J", "logutriga": "L", "sqltriga": "Q"}
#: Bits of pg_trigger.tgtype.
_BEFORE, _OPERATIONS = 2, {4: "I", 16: "U", 8: "D"}


def plan(
    sites: Connections,
    dsn: str,
    queue: str,
    patterns: Sequence[Pattern],
    handler: str | None,
    filters: Mapping[str, str] | None = None,
) -> CommandPlan:
    """Plans changing the handler of tables of the node at ``dsn``.  Changes nothing.

    patterns -- names, or patterns with * and ?.
    handler -- its stored form, '' for the default; None: each keeps its own.
    filters -- attributes of ``handlers.table_rules`` with new values; '' removes one.

    Raises BadOption, UnknownTable, StateError (a copy is under way), UsageError.
    """
    if not patterns:
        raise BadOption("no table given", hint="londiste change-handler TABLE --handler NAME")
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    known = {t.name: t for t in tables.get_table_list(local, queue) if t.local}
    below = functools.cache(lambda: filter_checks.nodes_below(sites, dsn, queue))

    unknown = unknown_table("replicated here", known)
    steps: list[Step] = []
    already: list[TableName] = []
    changed: list[tuple[TableName, TableRules]] = []
    root = node.type is NodeType.ROOT
    for name in select(patterns, list(known), [], unknown).chosen:
        table = known[name]
        change = _Change(handler, tuple(sorted((filters or {}).items())))
        attrs = change.of(table.attrs)
        if attrs == table.attrs:
            if COPY_BELOW in table.attrs:
                rules = table_rules.wants(attrs)
                steps += _copied_below(sites, (node.name, dsn), queue, name, below(), rules)
            else:
                already.append(name)
            continue
        wants = table_rules.wants(attrs)
        changed.append((name, wants))
        filter_checks.refuse(node, wants)
        new = attrs.get(table_rules.HANDLER, "")
        virtual = "virtual_table" in registry.make(new).words(root=root)
        if not virtual and catalog.info(local, table.dest) is None:
            raise UnknownTable(
                f"table {table.dest} does not exist in {describe_dsn(dsn)}",
                detail="nothing was changed",
                hint="create it first",
            )
        if wants.events is not None and not root:
            wants.events.check(local, queue, table.dest)
        if root and not wants.spreads and child_rows.has_some(local, table, root=True):
            raise StateError(
                f"table {name} has its rows in partitions",
                detail="they are of the time when this node was a branch; copies are refused as"
                " long as the handler says so; nothing was changed",
                hint=child_rows.collect(local, table, node.name),
            )
        again = not root and _other_rows(table, wants)
        if not root and table.state not in {None, "ok"}:
            raise _being_copied(table, copy_error(local, queue, name))
        if again and "skip_truncate" in table.attrs:
            raise StateError(
                f"table {name} was added with --skip-truncate",
                detail="a copy would duplicate the rows of the target; nothing was changed",
                hint=f"londiste remove-table {argument(name)}, then londiste add-table with the"
                " new filter",
            )
        if again:
            filter_checks.refuse_shared(sites, node, dsn, name, table.dest, wants)
            copy_source.require_rows(sites.at, sites.reach, node, table, wants)
        if again and not wants.whole:
            provider = sites.reach(node.provider_location, node.provider)
            theirs = tables.get_table(sites.at(provider), queue, name)
            source = name if theirs is None else theirs.dest
            filter_checks.check(
                sites, queue, provider, source, local, table.dest, name, wants, False
            )
        if not root and not wants.stored:
            filter_checks.refuse_rows_below(
                sites,
                dsn,
                node,
                name,
                filter_checks.rules_of(table),
                "that node would get rows and values that the branch excluded",
            )
        # A branch tells of what it had; what it tells from now on is something else.
        forget = again and node.type is NodeType.BRANCH
        then: list[Step] = []
        if forget or COPY_BELOW in table.attrs:
            then = _copied_below(sites, (node.name, dsn), queue, name, below(), wants)
        steps.append(
            ChangeHandler(node.name, dsn, queue, name, table.dest, change, root, again, forget)
        )
        steps += then
    notes = [] if root else filter_checks.incomplete(sites, node, changed)
    return CommandPlan(tuple(steps), tuple(already), notes=tuple(notes))


@dataclass(frozen=True)
class _Change:
    """Change of attributes: another handler (None: the same), other filters."""

    handler: str | None
    filters: tuple[tuple[str, str], ...] = ()

    def of(self, attrs: Mapping[str, str]) -> dict[str, str]:
        """The attributes after the change.

        A handler that takes every event is copied in one snapshot, whatever was wanted before.
        """
        given = dict(self.filters)
        if self.handler is not None:
            given[table_rules.HANDLER] = self.handler
        if self.handler and registry.make(self.handler).wants().events is not None:
            attrs = with_copy_mode(attrs, "auto")
        rest = {key: value for key, value in attrs.items() if key not in given}
        return rest | {key: value for key, value in given.items() if value}

    def describe(self) -> str:
        """The change in words."""
        words = [f"{key}={value}" if value else f"no {key}" for key, value in self.filters]
        if self.handler is not None:
            words.insert(0, f"the handler {self.handler or 'the default'}")
        return ", ".join(words)


def _being_copied(table: ReplicatedTable, error: str) -> StateError:
    """Pure: the refusal to change a table during its copy.

    error -- why the copy does not continue; '' if it does.
    """
    name = argument(table.name)
    if error:
        return StateError(
            f"table {table.name} is being copied ({table.state}), and its copy fails",
            detail=f"{error.splitlines()[0]}; nothing was changed",
            hint=f"londiste remove-table {name}, then londiste add-table {name} with the new"
            " handler",
        )
    return StateError(
        f"table {table.name} is being copied ({table.state})",
        detail="nothing was changed",
        hint="londiste wait-sync",
    )


def _other_rows(table: ReplicatedTable, wants: TableRules) -> bool:
    """Whether the new rules need rows that the target does not have."""
    try:
        before = table.wants
    except BadOption:
        # A handler that this process does not know: whatever it did, the rows are not known.
        return wants.stored
    return wants.stored and replace(wants, ignore_truncate=before.ignore_truncate) != before


def _copied_below(
    sites: Connections,
    at: tuple[str, str],
    queue: str,
    name: TableName,
    below: Sequence[tuple[str, str]],
    rules: TableRules,
) -> list[Step]:
    """The steps that copy a table again on all nodes below.  Raises StateError.

    rules -- of the table on this node.
    """
    found: list[Step] = []
    for node, dsn in below:
        table = tables.get_table(sites.at(dsn), queue, name)
        if table is None or not table.local or not table.keeps_rows:
            continue
        if "skip_truncate" in table.attrs:
            raise StateError(
                f"table {name} of node {node}, below this one, was added with --skip-truncate",
                detail="it has to be copied again, and a copy would duplicate its rows; nothing"
                " was changed",
                hint=f"with the settings of {node}: londiste remove-table {argument(name)}; add"
                " it again"
                " after the change",
            )
        past = copy_source.ANY if table_rules.unlike(rules, table.known_rules or ALL) else ""
        when = "" if past else ", after its provider"
        found.append(CopyAgain(node, dsn, queue, name, when=when, copy_node=past))
    return [*found, CopiedBelow(*at, queue, name)]


@dataclass(frozen=True)
class ChangeHandler(NodeStep):
    """Changes the handler or filter of one table of one node.

    again -- it is copied again; forget -- the branch deletes its events from its queue.
    """

    table: TableName
    dest: TableName
    change: _Change
    root: bool
    again: bool
    forget: bool = False

    def describe(self) -> str:
        more = ", copy it again" if self.again else ""
        return f"{self.node}: change table {self.table}: {self.change.describe()}{more}"

    def done(self, sites: Connections) -> bool:
        known = tables.get_table(sites.at(self.dsn), self.queue, self.table)
        return known is not None and self.change.of(known.attrs) == known.attrs

    def run(self, sites: Connections) -> None:
        """Raises LockTimeout when the table stays locked for ``sites.lock_timeout`` seconds."""
        with_table(sites, self.dsn, self.dest, self.node, self._set)

    def _set(self, conn: Connection) -> None:
        now = tables.lock_table(conn, self.queue, self.table)
        if now is None or not now.local:
            return
        attrs = self.change.of(now.attrs)
        if self.forget:
            attrs |= {FORGET: "1", COPY_BELOW: "1"}
        before = now.attrs.get(table_rules.HANDLER, "")
        words = self._words(conn, before, attrs.get(table_rules.HANDLER, ""))
        tables.local_change_handler(conn, self.queue, self.table, words, encode_attrs(attrs))
        if self.again:
            tables.local_set_table_state(conn, self.queue, self.table, None, None)
        if self.again and now.in_children and not table_rules.wants(attrs).spreads:
            # The copy will empty the table alone.  Another table's key forbids TRUNCATE.
            for key in tables.find_table_fkeys(conn, self.dest):
                tables.drop_table_fkey(conn, key.from_table, key.name)
            use_replica_role(conn)
            copied_rows.empty_with_children(conn, self.queue, now)

    def _words(self, conn: Connection, before: str, after: str) -> list[str]:
        """The trigger's words, with those of the old handler replaced by the new one's."""
        try:
            old = set(registry.make(before).words(root=self.root))
        except BadOption:
            old = set()
        new = list(registry.make(after).words(root=self.root))
        words = [word for word in trigger_words(conn, self.queue, self.dest) if word not in old]
        flags = any(word.startswith("tgflags=") for word in [*old, *new])
        words = [w for w in words if not (flags and w.startswith("tgflags="))]
        return with_trigger([*words, *(word for word in new if word not in words)])


def trigger_words(conn: Connection, queue: str, table: TableName) -> list[str]:
    """The words that create the trigger of a table again as it is."""
    row = first(conn, "trigger_words", queue=queue, table=str(table))
    if row is None:
        return ["no_triggers"]
    own, function, bits, raw = row
    arguments = [part.decode() for part in bytes(raw).split(b"\0")[:-1]]
    if own:
        # The queue, and the name of the table in its events.
        return [*arguments[2:], "tgflags=C"]
    words = [word for word in arguments[1:] if word not in {"SKIP", "deny"}]
    if "deny" in arguments:
        return words
    operations = "".join(letter for bit, letter in _OPERATIONS.items() if bits & bit)
    before = "B" if bits & _BEFORE else ""
    words.append(f"tgflags={_LETTERS.get(function, '')}{before}{operations}")
    return [*words, "skip"] if "SKIP" in arguments else words
