"""Checks whether a branch can be promoted to root without loss.

A table that is missing or filtered on it would silently lose the missing rows for the whole
cascade.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from londiste.cascade import sqlapi as nodes
from londiste.cascade.switching import operation_log
from londiste.cascade.switching.cluster_state import ClusterState, Warn
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument, word
from londiste.db.queries import tuples
from londiste.errors import BadOption, StateError
from londiste.handlers import table_rules
from londiste.orchestration.connections import Connections
from londiste.replication import lost_rows, replicated_rows, replication_role
from londiste.replication import sqlapi as tables
from londiste.replication.commands.triggers import rows_first
from londiste.replication.failover import reroute
from londiste.replication.model import ReplicatedSequence, ReplicatedTable
from londiste.replication.tablesync.states import described
from londiste.wording import shortened

_SHOWN = 5
#: Removes a blocker that ends by itself.
WAIT = "wait-sync"
_FILTERS = frozenset({table_rules.WHERE, table_rules.COLUMNS, table_rules.SKIP_COLUMNS})
_CHOICES = _FILTERS | {table_rules.HANDLER}


@dataclass(frozen=True)
class PromotionBlocker:
    """A blocker of the promotion, and the command that removes it on the node.

    queue -- with whose settings it runs; empty: with those of the queue that gets the new root.
    before -- what comes before it on another node, with a separator.
    """

    problem: str
    mend: str
    queue: str = ""
    before: str = ""

    def remedy(self, node: str) -> str:
        """The command, with where it runs."""
        of = f"queue {self.queue} on {node}" if self.queue else node
        return f"{self.before}with the settings of {of}: londiste {self.mend}"


def findings(
    node: str,
    old: Sequence[ReplicatedTable] | None,
    new: Sequence[ReplicatedTable],
    old_sequences: Iterable[ReplicatedSequence] | None,
    new_sequences: Iterable[ReplicatedSequence],
    lost: Mapping[TableName, str],
    above: reroute.Feed,
    lacking: Mapping[TableName, str] = MappingProxyType({}),
    rewritten: Collection[TableName] = (),
) -> list[PromotionBlocker]:
    """Pure: the blockers of ``node`` as the root.

    old, old_sequences -- of the root; None where it does not respond: then the node's own list of
        the queue is used.
    lost -- tables of the node whose captures do not capture their changes, or others, and how.
    above -- filters of the branches that it reads from.
    lacking -- its tables without some rows of the queue, and why.
    rewritten -- its tables whose old rows may differ: on a root nothing would correct them.
    """
    found = []
    counted = [t for t in (old if old is not None else new) if t.local or old is None]
    mine = {t.name: t for t in new}
    theirs = {t.name: t for t in old or ()}
    for table in counted:
        here = mine.get(table.name)
        if here is None or not here.local:
            found.append(
                PromotionBlocker(
                    f"table {table.name} is not replicated on {node}",
                    f"add-table {argument(table.name)}",
                )
            )
        elif here.state != "ok":
            found.append(
                PromotionBlocker(
                    f"table {table.name} is not in sync: it {described(here.state)}", "wait-sync"
                )
            )
        elif here.in_children:
            found.append(
                PromotionBlocker(
                    f"table {table.name} of {node} has its rows in partitions, which neither"
                    " capture nor copies of the other nodes read",
                    _whole(here),
                )
            )
        elif other := _other_rows(node, here, theirs.get(table.name)):
            found.append(PromotionBlocker(other, _whole(here)))
        elif table.name in above:
            found.append(
                PromotionBlocker(
                    f"{node} gets only a subset of table {table.name}, or changed values:"
                    f" {reroute.describe_links(above[table.name])}",
                    "change-provider --provider NODE --allow-resync (the root, or an"
                    " unfiltered branch)",
                )
            )
        elif table.name in lacking:
            found.append(
                PromotionBlocker(
                    f"table {table.name} of {node} {lacking[table.name]}, rows are missing",
                    f"resync {argument(table.name)}",
                )
            )
        elif table.name in rewritten:
            found.append(
                PromotionBlocker(
                    f"table {table.name} of {node} {lost_rows.REWRITTEN}: its rows may differ",
                    # Without a root nothing tells whether they do; it names the way to accept them.
                    "check"
                    if old is None
                    else rows_first(argument(table.name)).removeprefix("londiste "),
                )
            )
        elif table.name in lost:
            found.append(
                PromotionBlocker(
                    f"table {table.name} of {node} {lost[table.name]}",
                    _restore(argument(table.name), answers=old is not None),
                )
            )
    kept = {s.name for s in new_sequences if s.local}
    for sequence in old_sequences or ():
        if sequence.local and sequence.name not in kept:
            found.append(
                PromotionBlocker(
                    f"sequence {sequence.name} is not replicated on {node}",
                    f"add-seq --create {argument(sequence.name)}",
                )
            )
    return found


def sequence_findings(root: str, unreplicated: Iterable[tuple[str, str]]) -> list[PromotionBlocker]:
    """Pure: sequences that tables of the root use and the root does not replicate, as blockers.

    unreplicated -- a table and a sequence of its columns.
    """
    return [
        PromotionBlocker(
            f"sequence {sequence} of table {table} is not replicated: the new root would return"
            " values that rows already have",
            f"add-seq --create {argument(sequence)}",
            before=f"with the settings of {root}: londiste add-seq {argument(sequence)}; then ",
        )
        for table, sequence in unreplicated
    ]


def filling_findings(
    node: str, root: str, brought: Iterable[tuple[TableName, str]]
) -> list[PromotionBlocker]:
    """Pure: tables that another queue fills on the root only, as blockers.

    brought -- table and queue.  It would fill the old root alone, which sends no events then.
    """
    return [
        PromotionBlocker(
            f"queue {queue} fills table {table} of {root}, and not of {node}",
            f"create-leaf NAME --provider DSN, londiste add-table {argument(table)}",
            queue,
            f"with the settings of queue {queue} on {root}: londiste remove-table"
            f" {argument(table)}; then, after the switchover, ",
        )
        for table, queue in brought
    ]


def _restore(name: str, *, answers: bool) -> str:
    """The command for a lost capture of a branch, without its first ``londiste``.

    answers -- the old root does: writes of before can be found and replaced.
    """
    restore = f"triggers --restore {name}"
    if not answers:
        return restore
    return f"{rows_first(name).removeprefix('londiste ')}; then londiste {restore}"


def part_findings(
    node: str,
    part: str,
    old: Sequence[ReplicatedTable],
    new: Sequence[ReplicatedTable] | None,
    combined: str,
) -> list[PromotionBlocker]:
    """Pure: the blockers of ``node`` as the root that ``part`` merges into.

    old, new -- tables of the part's leaf on the old root and on the new one, None without a leaf.
    """
    if new is None:
        return [
            PromotionBlocker(
                f"queue {part}, which merges into {combined}, has no leaf on {node}",
                f"create-leaf NAME --provider DSN --merge {word(combined)}",
                part,
            )
        ]
    mine = {t.name: t for t in new}
    found = []
    kept = {t.name for t in old if t.local}
    for name in (t.name for t in new if t.local and t.name not in kept):
        # Later events of the source would meet none of its older rows.
        problem = f"table {name} of queue {part} is replicated by its leaf on {node} only"
        found.append(PromotionBlocker(problem, f"remove-table {argument(name)}", part))
    for table in old:
        here = mine.get(table.name)
        if not table.local:
            continue
        if here is None or not here.local:
            problem = f"table {table.name} of queue {part} is not replicated by its leaf on {node}"
            found.append(PromotionBlocker(problem, f"add-table {argument(table.name)}", part))
        elif here.dest != table.dest or _kept(here) != _kept(table):
            problem = f"table {table.name} of queue {part} has a different filter on {node}"
            found.append(PromotionBlocker(problem, f"change-handler {argument(table.name)}", part))
        elif table.state != "ok" or here.state != "ok":
            problem = f"table {table.name} of queue {part} is not in sync"
            found.append(PromotionBlocker(problem, WAIT, part))
    return found


def _kept(table: ReplicatedTable) -> dict[str, str]:
    """The attributes that select rows and columns."""
    return {k: v for k, v in table.attrs.items() if k in _CHOICES}


def _all_parts(
    here: Connection, there: Connection, queue: str, node: str
) -> list[PromotionBlocker]:
    found = []
    for part in nodes.get_node_info(there, queue).target_for:
        leaf = nodes.find_node_info(here, part)
        new = None
        if leaf is not None and leaf.combined_queue == queue:
            new = tables.get_table_list(here, part)
        found += part_findings(node, part, tables.get_table_list(there, part), new, queue)
    return found


def check(
    sites: Connections, scene: ClusterState, name: str, old: str, *, force: bool = False, warn: Warn
) -> None:
    """Raises StateError when ``name`` cannot replace root ``old`` without loss.

    old -- it may have failed.
    force -- continue with a warning.
    """
    new, queue = scene.place(name), scene.queue
    here = sites.at(new.dsn)
    operation_log.require_notes(here, name)
    _require_captures(here, name, force=force, warn=warn)
    answers = scene.answers(old)
    there = sites.at(scene.place(old).dsn) if answers else None
    feeds = reroute.Feeds(sites, scene, lost_root=None if answers else old)
    provider = scene.info(name).provider
    try:
        above = feeds.through(provider)
    except reroute.Unknown as error:
        found = [
            PromotionBlocker(
                f"node {error} does not respond: its filters of the tables of {name} are unknown",
                "change-provider --provider NODE --allow-resync (a responding, unfiltered one)",
            )
        ]
        above = {}
    else:
        found = []
    strays = {
        TableName.parse(name): f"gets changes of {other}, which is not replicated"
        for name, other in tuples(here, "stray_captures", queue=queue)
    }
    found += findings(
        new.name,
        None if there is None else tables.get_table_list(there, queue),
        tables.get_table_list(here, queue),
        None if there is None else tables.get_seq_list(there, queue),
        tables.get_seq_list(here, queue),
        strays | dict(tables.lost_captures(here, queue)),
        above,
        lost_rows.find(here, queue),
        tables.rewritten_tables(here, queue),
    )
    if there is not None:
        found += _all_parts(here, there, queue, new.name)
        rows = tuples(there, "unreplicated_sequences", queue=queue)
        found += sequence_findings(old, [row[1:3] for row in rows if not row[3]])
        brought = replicated_rows.left_behind(there, here, queue)
        found += filling_findings(new.name, old, brought)
    if not found:
        return
    shown = shortened([f.problem for f in found], _SHOWN, between="; ")
    if force:
        warn(
            f"node {new.name} lacks data that the root had: {shown}; other nodes differ"
            " from it in these tables: londiste compare, then londiste resync there"
        )
        return
    own = list(dict.fromkeys(f.mend for f in found[:_SHOWN] if not f.queue + f.before))
    mends = [f"with the settings of {new.name}: londiste {', londiste '.join(own)}"] if own else []
    mends += dict.fromkeys(f.remedy(new.name) for f in found[:_SHOWN] if f.queue + f.before)
    raise StateError(
        f"node {new.name} is not ready to be the root: {shown}",
        detail="nothing was changed; the missing data would no longer be replicated",
        hint=f"{'; '.join(mends)}; or continue without it: --allow-data-loss",
    )


def _require_captures(here: Connection, name: str, *, force: bool, warn: Warn) -> None:
    """Raises StateError when sessions of the node's database would not be captured."""
    for one in replication_role.find(here):
        what = f"node {name} is not ready to be the root"
        if force:
            warn(
                f"{what}: {one}: {replication_role.WHY}; as an administrator of {name}:"
                f" {one.statement}"
            )
            continue
        then = "then repeat the command; or continue without it: --allow-data-loss"
        raise replication_role.refusal(one, what, name, then)


def _other_rows(node: str, here: ReplicatedTable, there: ReplicatedTable | None) -> str:
    """Pure: why the rows of a table are not those of the root; '' where they are.

    there -- the table of the root.  Equal attributes mean equal rows, but for a handler that takes
        every event: on the root it has no effect.
    """
    less = f"{node} replicates only a subset of table {here.name}"
    same = there is not None and here.attrs == there.attrs
    try:
        rules = here.holds
    except BadOption:
        # A handler that is not known to this process: what it holds cannot be said.
        return "" if same else less
    if same and rules.events is None:
        return ""
    if not rules.whole:
        return less
    if rules.incomparable:
        return (
            f"table {here.name} of {node} does not have the rows of the root: {rules.incomparable}"
        )
    return ""


def _whole(table: ReplicatedTable) -> str:
    """The command, without its first ``londiste``, that makes a table equal to that of the root."""
    change = f"change-handler {argument(table.name)}"
    if not table.attrs.keys() & _FILTERS:
        return change
    handler = " --handler londiste" if table_rules.HANDLER in table.attrs else ""
    return f"{change}{handler} --where '' --columns '' --skip-columns ''"
