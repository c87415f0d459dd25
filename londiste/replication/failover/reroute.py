"""Effects of another provider on a node's tables: the same rows of each, or different ones.

A branch may filter a table or change its values, and its subscribers get the result.  So a node
that changes its provider may get different rows, or original values instead of masked ones, and no
event shows it.  A move that changes the rows of a table is refused; with ``force`` the table is
first copied again from the new provider, on the nodes below, too.

``changed`` is pure; ``Feeds`` asks the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from londiste.cascade.model import NodeType
from londiste.cascade.switching.cluster_state import ClusterState, Warn
from londiste.db.names import TableName, argument
from londiste.errors import BadOption, StateError
from londiste.handlers import table_rules
from londiste.handlers.table_rules import COLUMNS, HANDLER, SKIP_COLUMNS, WHERE
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replication import sqlapi as tables
from londiste.replication.forwarding.rewrite import holds_less
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync import copy_source
from londiste.replication.tablesync.cancel import CopyAgain
from londiste.wording import shortened

_SHOWN = 5


@dataclass(frozen=True)
class Link:
    """The filter of one branch on a table; equal where the result is the same.

    attrs -- the attributes of its table that define it.
    """

    node: str = field(compare=False)
    attrs: tuple[tuple[str, str], ...]

    def describe(self) -> str:
        """As text: ``branch"""
        words = {
            HANDLER: "handler {}",
            WHERE: "rows where {}",
            COLUMNS: "columns {}",
            SKIP_COLUMNS: "without columns {}",
        }
        said = []
        for key, value in self.attrs:
            # Options of a handler may be long, and are nobody's business here.
            shown = value.partition("(")[0] if key == HANDLER else value
            said.append(words[key].format(shown))
        return f"branch {self.node}: {', '.join(said)}"


#: What the branches on the way down to a node make of tables, from the nearest one on.
Feed = Mapping[TableName, tuple[Link, ...]]


def link(node: str, table: ReplicatedTable) -> Link | None:
    """The filter of a branch on a table that it replicates; None without one."""
    if not table.local:
        return None
    try:
        holds = table.holds
        less = holds.stored and (holds_less(holds) or bool(holds.changed))
    except BadOption:
        # A handler that is not known to this process: what it does cannot be said.
        less = True
    if not less:
        return None
    said = (HANDLER, WHERE, COLUMNS, SKIP_COLUMNS)
    return Link(node, tuple((key, table.attrs[key]) for key in said if table.attrs.get(key)))


def changed(before: Feed, after: Feed) -> frozenset[TableName]:
    """The tables for which ``after`` gives different rows than ``before``."""
    return frozenset(
        name for name in {*before, *after} if before.get(name, ()) != after.get(name, ())
    )


class Unknown(Exception):
    """A required node does not respond; its name."""


class Feeds:
    """Filters on the way to each node of a cluster, now and after planned moves.

    lost_root -- a node that does not respond and was the root: it had all rows.
    """

    def __init__(
        self, sites: Connections, scene: ClusterState, *, lost_root: str | None = None
    ) -> None:
        self._sites = sites
        self._scene = scene
        self._lost_root = lost_root
        self._tables: dict[str, list[ReplicatedTable]] = {}
        self._parents: dict[str, str | None] = {
            name: view.provider for name, view in scene.topology.views.items()
        }

    def tables(self, node: str) -> list[ReplicatedTable]:
        """The tables that a node replicates."""
        if node not in self._tables:
            conn = self._sites.at(self._scene.place(node).dsn)
            known = tables.get_table_list(conn, self._scene.queue)
            self._tables[node] = [t for t in known if t.local]
        return self._tables[node]

    def through(self, provider: str) -> Feed:
        """The filters for a node that reads from ``provider``.  Raises Unknown."""
        found: dict[TableName, tuple[Link, ...]] = {}
        seen: set[str] = set()
        here: str | None = provider
        while here is not None and here not in seen and here != self._lost_root:
            seen.add(here)
            view = self._scene.topology.views.get(here)
            if view is None or view.info is None:
                raise Unknown(here)
            if view.info.type is NodeType.ROOT:
                break
            for table in self.tables(here):
                one = link(here, table)
                if one is not None:
                    found[table.name] = (*found.get(table.name, ()), one)
            here = self._parents[here]
        return found

    def copied_past(self, node: str, table: ReplicatedTable) -> bool:
        """Whether a copy of a table of a node is from further up than its provider."""
        provider = self._parents[node]
        if provider is None or self._scene.info(provider).type is NodeType.ROOT:
            return False
        return not _copied_from(self.tables(provider), table)

    def move(self, node: str, provider: str) -> None:
        """Records the planned provider of the node."""
        self._parents[node] = provider

    def below(self, node: str) -> list[str]:
        """The responding nodes that get their events through a node, nearest first."""
        found: list[str] = []
        ask = [node]
        while ask:
            here = ask.pop(0)
            for name, parent in self._parents.items():
                if parent == here and name != node and name not in found:
                    found.append(name)
                    ask.append(name)
        return found


def guard(
    sites: Connections,
    scene: ClusterState,
    *,
    force: bool,
    warn: Warn,
    lost_root: str | None = None,
) -> Callable[[str, str, str], list[Step]]:
    """Steps about tables for a change of provider: ``guard(…)(node, old, new)`` -> steps.

    The steps run after the node's worker has stopped and before it reads from the new provider.
    Each call plans one move; later calls take it into account.

    Without ``force``, raises StateError when a table would get different rows, or when that is
    unknown; with it, where a table cannot be copied again.
    """
    feeds = Feeds(sites, scene, lost_root=lost_root)

    def plan(node: str, old: str, new: str) -> list[Step]:
        touched = [node, *feeds.below(node)]
        kept = {n: [t for t in feeds.tables(n) if t.keeps_rows] for n in touched}
        if not any(kept.values()):
            feeds.move(node, new)
            return []
        try:
            before = feeds.through(old)
            after = feeds.through(new)
        except Unknown as error:
            if not force:
                raise _unknown(node, old, str(error)) from error
            feeds.move(node, new)
            warn(
                f"the filters of {error} are unknown; copy the tables again that it filtered,"
                f" with the settings of {node}: londiste resync TABLE"
            )
            return []
        feeds.move(node, new)
        root = scene.info(new).type is NodeType.ROOT
        if not force:
            _refuse_uncopied(node, new, kept[node], feeds.tables(new), root=root)
        other = changed(before, after)
        again = [(n, t) for n, mine in kept.items() for t in mine if t.name in other]
        if not again:
            return []
        if not force:
            names = [t.name for _, t in again]
            raise _refused(node, old, new, names, before, after, root=root)
        for name, table in again:
            if "skip_truncate" in table.attrs:
                raise StateError(
                    f"table {table.name} of node {name} was added with --skip-truncate",
                    detail="it has to be copied again, and a copy would duplicate its rows;"
                    " nothing was changed",
                    hint=f"with the settings of {name}: londiste remove-table"
                    f" {argument(table.name)}; add"
                    " it again after the move",
                )
        steps: list[Step] = []
        for name, table in again:
            branch = scene.info(name).type is NodeType.BRANCH
            past = copy_source.ANY if feeds.copied_past(name, table) else ""
            dsn = scene.place(name).dsn
            steps.append(CopyAgain(name, dsn, scene.queue, table.name, branch, copy_node=past))
        return steps

    return plan


def partial(sites: Connections, scene: ClusterState, new: str, lost: str) -> frozenset[str]:
    """The branches from which ``new``, below the failed root, would get less than before.

    They include those whose own filters are unknown.
    """
    feeds = Feeds(sites, scene, lost_root=lost)
    try:
        before = feeds.through(scene.info(new).provider)
    except Unknown:
        before = {}
    mine = {t.name for t in feeds.tables(new) if t.keeps_rows}
    found = set()
    for info in scene.live():
        if info.type is not NodeType.BRANCH or info.name == new:
            continue
        try:
            if mine & changed(before, feeds.through(info.name)):
                found.add(info.name)
        except Unknown:
            found.add(info.name)
    return frozenset(found)


def _refuse_uncopied(
    node: str,
    new: str,
    mine: Sequence[ReplicatedTable],
    theirs: Sequence[ReplicatedTable],
    *,
    root: bool,
) -> None:
    """Raises StateError when a table still waits for its copy, and ``new`` lacks its rows.

    root -- ``new`` is the root.
    """
    there = {t.name for t in theirs if t.local}
    waiting = [t for t in mine if t.state != "ok"]
    left = [str(t.name) for t in waiting if t.name not in there]
    if left:
        raise StateError(
            f"node {node} still copies table {', '.join(left)}, which {new} does not have",
            detail="the copy would wait indefinitely; nothing was changed",
            hint=f"with the settings of {node}: londiste wait-sync; or with the settings of {new}:"
            f" londiste add-table {argument(left[0])}; or continue with --allow-resync, and remove"
            " the table",
        )
    ours = [t for t in waiting if copy_source.ATTR not in t.attrs]
    left = [] if root else [str(t.name) for t in ours if not _copied_from(theirs, t)]
    if left:
        raise StateError(
            f"node {node} still copies table {', '.join(left)}, which cannot be copied from {new}",
            detail="its handler there keeps other rows than those of its events; nothing was"
            " changed",
            hint=f"with the settings of {node}: londiste wait-sync; or: londiste resync"
            f" {argument(left[0])} --find-copy-node",
        )


def _copied_from(theirs: Sequence[ReplicatedTable], table: ReplicatedTable) -> bool:
    """Pure: whether a branch with these tables has the rows for a copy of the table."""
    there = next((t for t in theirs if t.local and t.name == table.name), None)
    try:
        return there is not None and not table_rules.unlike(there.holds, table.holds)
    except BadOption:
        # A handler that is not known to this process: the copy names it.
        return True


def describe_links(links: tuple[Link, ...]) -> str:
    """The filters of a table as text."""
    return "; ".join(one.describe() for one in links) or "all rows"


def _refused(
    node: str,
    old: str,
    new: str,
    names: list[TableName],
    before: Feed,
    after: Feed,
    *,
    root: bool,
) -> StateError:
    """The refusal of a move.

    root -- the new provider has all rows: it cannot filter for the nodes below it.
    """
    names = list(dict.fromkeys(names))
    shown = shortened(names, _SHOWN)
    ways = [
        f"{name}: now {describe_links(before.get(name, ()))}; then"
        f" {describe_links(after.get(name, ()))}"
        for name in names[:_SHOWN]
    ]
    filtering = f"londiste change-handler {argument(names[0])}"
    return StateError(
        f"node {node} would get different rows or values from {new} than from {old}:"
        f" table{'s' if len(names) > 1 else ''} {shown}",
        detail=f"{'. '.join(ways)}. Nothing was changed",
        hint=f"--allow-resync continues and copies {'them' if len(names) > 1 else 'it'} again from"
        f" {new}, on the nodes below, too"
        + ("" if root else f"; or filter as before, on node {new}: {filtering}"),
    )


def _unknown(node: str, old: str, silent: str) -> StateError:
    return StateError(
        f"node {silent} does not respond: its filters of the tables of {node} are unknown",
        detail=f"if it filtered or masked a table, {node} would get different rows than from"
        f" {old}; nothing was changed",
        hint="start its server; or use --allow-resync if it filtered no table, or copy the filtered"
        f" ones again afterwards, with the settings of {node}: londiste resync TABLE",
    )
