"""What a node gets from another provider than before: the same of every table, or not.

A branch may hold a part of a table, or other values, and whoever reads from it gets that.  So a
node that reads from elsewhere may get other rows, or originals in the place of masks, and nothing
in the events says so.  A move that changes what comes of a table is refused; with ``force`` the
table is copied again from the new provider, on the nodes below, too, before the node reads there.

``changed`` is pure; ``Feeds`` asks the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from londiste.cascade.model import NodeType
from londiste.cascade.switching.cluster_state import ClusterState, Warn
from londiste.db.names import TableName
from londiste.errors import BadOption, StateError
from londiste.handlers.table_rules import COLUMNS, HANDLER, SKIP_COLUMNS, WHERE
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replication import sqlapi as tables
from londiste.replication.forwarding.rewrite import holds_less
from londiste.replication.model import FORGET, ReplicatedTable, encode_attrs
from londiste.replication.tablesync.cancel import copy_stop

_SHOWN = 5


@dataclass(frozen=True)
class Link:
    """What one branch makes of a table on its way down; equal where the same comes out.

    attrs -- the attributes of its table that say it.
    """

    node: str = field(compare=False)
    attrs: tuple[tuple[str, str], ...]

    def describe(self) -> str:
        """For people: ``branch b: rows where x > 1, handler obfuscate``."""
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
    """What a branch makes of a table that it keeps; None where it hands on all of it."""
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
    """The tables of which something else comes through ``after`` than through ``before``."""
    return frozenset(
        name for name in {*before, *after} if before.get(name, ()) != after.get(name, ())
    )


class Unknown(Exception):
    """A node that would have to be asked does not answer; its name."""


class Feeds:
    """What comes to the nodes of a scene, as it is and as it will be after planned moves.

    lost_root -- a node that does not answer and was the root: it held all.
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
        """The tables that a node keeps."""
        if node not in self._tables:
            conn = self._sites.at(self._scene.place(node).dsn)
            known = tables.get_table_list(conn, self._scene.queue)
            self._tables[node] = [t for t in known if t.local]
        return self._tables[node]

    def through(self, provider: str) -> Feed:
        """What comes to a node that reads from ``provider``.  Raises Unknown."""
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

    def move(self, node: str, provider: str) -> None:
        """From now on the node is taken to read from there."""
        self._parents[node] = provider

    def below(self, node: str) -> list[str]:
        """The nodes that answer and get their events through a node, the nearer ones first."""
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
    """What a change of provider has to do about tables: ``guard(…)(node, old, new)`` -> steps.

    The steps belong between the moment when the node's worker stands still and the one when it
    reads from elsewhere.  Each call plans one move; later ones know of it.

    Raises StateError, without ``force``, when something else would come of a table, or when it
    cannot be known; with it where a table cannot be copied again.
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
                f"what {error} held of tables is not known: of those of which it did not hold all,"
                f" copy the rows again: londiste resync TABLE, with the settings of {node}"
            )
            return []
        feeds.move(node, new)
        if not force:
            _refuse_uncopied(node, new, kept[node], feeds.tables(new))
        other = changed(before, after)
        again = [(n, t) for n, mine in kept.items() for t in mine if t.name in other]
        if not again:
            return []
        if not force:
            raise _refused(node, old, new, [t.name for _, t in again], before, after)
        for name, table in again:
            if "skip_truncate" in table.attrs:
                raise StateError(
                    f"table {table.name} of node {name} was added with --skip-truncate",
                    detail="it would have to be copied again, beside the rows that are there;"
                    " nothing was changed",
                    hint=f"with the settings of {name}: londiste remove-table {table.name}; add it"
                    " again afterwards",
                )
        steps: list[Step] = []
        for name, table in again:
            branch = scene.info(name).type is NodeType.BRANCH
            steps.append(CopyAgain(name, scene.place(name).dsn, scene.queue, table.name, branch))
        return steps

    return plan


def partial(sites: Connections, scene: ClusterState, new: str, lost: str) -> frozenset[str]:
    """The branches from which ``new``, below the lost root, would get less than it got until now.

    One whose own feed cannot be known is among them.
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


@dataclass(frozen=True)
class CopyAgain:
    """A table is copied again, from what its node reads from when its worker goes on.

    forget -- what a branch has told of it goes out of its queue.
    """

    node: str
    dsn: str = field(repr=False)
    queue: str
    table: TableName
    forget: bool

    def describe(self) -> str:
        return f"{self.node}: copy table {self.table} again"

    def done(self, sites: Connections) -> bool:
        now = tables.get_table(sites.at(self.dsn), self.queue, self.table)
        if now is None or not now.local:
            return True
        return now.state is None and (not self.forget or FORGET in now.attrs)

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.dsn) as conn:
            copy_stop(conn, self.queue, self.table)
            now = tables.get_table(conn, self.queue, self.table)
            if now is None or not now.local:
                return
            if self.forget:
                attrs = encode_attrs({**now.attrs, FORGET: "1"})
                tables.local_set_table_attrs(conn, self.queue, self.table, attrs)
            # What an earlier copy took off is still to be put back by the next one.
            state = "in-copy" if now.dropped_ddl else None
            tables.local_set_table_state(conn, self.queue, self.table, None, state)


def _refuse_uncopied(
    node: str, new: str, mine: Sequence[ReplicatedTable], theirs: Sequence[ReplicatedTable]
) -> None:
    """Raises StateError when a table still has to be copied, and ``new`` does not have its rows."""
    there = {t.name for t in theirs if t.local}
    left = [str(t.name) for t in mine if t.state != "ok" and t.name not in there]
    if left:
        raise StateError(
            f"node {node} still copies table {', '.join(left)}, which {new} does not keep",
            detail="it would wait for it for ever; nothing is changed",
            hint=f"with the settings of {node}: londiste wait-sync; or of {new}: londiste add-table"
            f" {left[0]}; or --force, and remove the table",
        )


def describe_links(links: tuple[Link, ...]) -> str:
    """What comes of a table, for people."""
    return "; ".join(one.describe() for one in links) or "all of it"


def _refused(
    node: str, old: str, new: str, names: list[TableName], before: Feed, after: Feed
) -> StateError:
    names = list(dict.fromkeys(names))
    shown = ", ".join(map(str, names[:_SHOWN]))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    ways = [
        f"{name}: until now {describe_links(before.get(name, ()))};"
        f" then {describe_links(after.get(name, ()))}"
        for name in names[:_SHOWN]
    ]
    return StateError(
        f"node {node} would get other rows or values from {new} than from {old} of table"
        f"{'s' if len(names) > 1 else ''} {shown}{more}",
        detail=f"{'. '.join(ways)}. Nothing is changed",
        hint=f"--force goes on and copies {'them' if len(names) > 1 else 'it'} again from {new}, on"
        f" the nodes below, too; to have less there: londiste change-handler {names[0]}",
    )


def _unknown(node: str, old: str, silent: str) -> StateError:
    return StateError(
        f"what {silent} held of the tables of {node} cannot be asked: it does not answer",
        detail=f"where it held only a part of a table, or masked values, {node} would get other"
        f" rows than from {old}; nothing is changed",
        hint="start its server; or --force if it held all of them, or if you copy the others again"
        " afterwards: londiste resync TABLE",
    )
