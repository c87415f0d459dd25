"""Rules for tables and sequences of a node and its provider: from facts to findings.

A finding has a severity, a message, the reason, and a command with its node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from londiste.cascade.daemons import Life, Running
from londiste.db.names import argument, quote
from londiste.monitor.nodes import doubts
from londiste.monitor.nodes.doubts import STALE_BELOW
from londiste.monitor.nodes.table_facts import (
    TableFacts,
    compared,
    misread_columns,
    unchecked_keys,
)
from londiste.monitor.queues.model import Finding, Severity
from londiste.replication.commands.merged_tables import UNCHECKED, TableKey
from londiste.replication.replication_role import WHY, RoleSetting
from londiste.wording import at_node, hint_in


@dataclass(frozen=True)
class NodeFacts:
    """Facts that a node reports.

    sequences -- published values of those that it knows; None for one that it does not replicate.
    doubts -- (kind, table, detail) of ``sql/queries/table_doubts.sql``, and of sequences likewise.
    keys -- foreign keys that do not hold for all rows: name, state, why, and what helps.
    unfollowed -- tables and sequences that are followed and could not be added, and why.
    errors -- of the worker and other consumers of the node: name and first line.
    paused -- whether its worker is paused.  operation -- an unfinished change of the cascade, and
        the command that finishes it.  worker -- that of the node; None: not asked.
    copies_paused -- by ``copy pause``; None: not known.
    silenced -- settings with which its captures do not fire.
    is_lost -- its list of tables, which is empty in a database that had some.
    """

    name: str
    type: str
    tables: Mapping[str, TableFacts] = field(default_factory=dict)
    sequences: Mapping[str, int | None] = field(default_factory=dict)
    doubts: tuple[tuple[str, str, str], ...] = ()
    keys: tuple[tuple[str, str, str, str], ...] = ()
    unfollowed: tuple[tuple[str, str], ...] = ()
    errors: tuple[tuple[str, str], ...] = ()
    paused: bool = False
    operation: tuple[str, str] | None = None
    worker: Running | None = None
    copies_paused: bool | None = False
    silenced: tuple[RoleSetting, ...] = ()
    is_lost: bool = False


def findings(node: NodeFacts, provider: NodeFacts | None, queue: str) -> list[Finding]:
    """All findings about a node, the worst first.

    provider -- None for a root, and when the provider is not checked.
    """
    found = [*_own(node, queue)]
    if provider is not None:
        found += _beside(node, provider, queue)
    return sorted(found, key=lambda one: -one.severity)


def _at_work(node: NodeFacts, queue: str) -> list[Finding]:
    """Findings that ``londiste status`` shows, too: the node does not replicate, and why."""
    found = []
    for who, text in node.errors:
        hint = hint_in(text) or "londiste events show; check the log of its worker"
        do = at_node(hint, node.name)
        what = f"{who} is stopped"
        found.append(_finding(Severity.CRITICAL, "error", node, what, text, do, queue))
    if node.worker is not None:
        found += _of_worker(node, node.worker, queue)
    if node.paused:
        do = f"londiste resume --node {argument(node.name)}"
        why = "it applies nothing until it is resumed"
        found.append(
            _finding(Severity.WARNING, "paused", node, "the worker is paused", why, do, queue)
        )
    if node.operation is not None:
        what, command = node.operation
        why = "a change of the cascade is unfinished"
        found.append(_finding(Severity.WARNING, "operation", node, what, why, command, queue))
    return found


def _of_worker(node: NodeFacts, worker: Running, queue: str) -> list[Finding]:
    """About a worker that does not run, or of which nothing is known."""
    if worker.life is Life.UNKNOWN:
        why = "the SQL of the node is of Londiste 3 or of an earlier version"
        do = "check it with that version; or upgrade: londiste install --dry-run"
        what = "unknown: whether its worker runs"
        return [_finding(Severity.UNKNOWN, "unknown", node, what, why, do, queue)]
    is_root = node.type == "root"
    # status warns about a root that never had one; its tables do not depend on it.
    if worker.life.runs or (is_root and worker.life is Life.NEVER):
        return []
    is_new = worker.life is Life.NEVER
    severity = Severity.WARNING if is_root or is_new else Severity.CRITICAL
    why = "the node applies nothing until it runs"
    return [_finding(severity, "worker", node, worker.text, why, worker.do, queue)]


def _silenced(node: NodeFacts, queue: str) -> list[Finding]:
    """About sessions whose changes no capture sees; a leaf captures nothing."""
    found = []
    for one in node.silenced if node.type != "leaf" else ():
        do = (
            f"as an administrator: {one.statement}; end its open sessions; then on the nodes below:"
            " londiste compare, and londiste resync TABLE where a table differs"
        )
        found.append(
            _finding(Severity.CRITICAL, "replication-role", node, str(one), WHY, do, queue)
        )
    return found


def _own(node: NodeFacts, queue: str) -> list[Finding]:
    found = [*_at_work(node, queue), *_silenced(node, queue)]
    for name, table in node.tables.items():
        if table.copy_below:
            do = (
                f"with the settings of {node.name}: londiste change-handler {argument(name)}"
                " --continue"
            )
            why = "change-handler or apply was interrupted: the nodes below have rows of before"
            what = f"table {name} {STALE_BELOW}"
            found.append(_finding(Severity.CRITICAL, "subscribers", node, what, why, do, queue))
        for one in table.keys:
            if one.deferrable and one.shared and node.type != "root":
                found.append(_deferrable(Severity.CRITICAL, node, name, one, _SHARED, queue))
        if not table.local or table.state == "ok":
            continue
        severity = Severity.CRITICAL if table.error else Severity.WARNING
        what = f"table {name} is not in sync ({table.state or 'waits for its copy'})"
        why, do = _copy_state(node, table)
        found.append(_finding(severity, "state", node, what, why, do, queue))
    for kind, table_name, detail in node.doubts:
        if kind in {"always", "rule", "type-owner", "table-owner"} and node.type == "root":
            # Nothing is replicated to it.
            continue
        severity, what, why, do = doubts.doubt(
            kind, table_name, detail, queue, node.name, root=node.type == "root"
        )
        found.append(_finding(severity, kind, node, what, why, do, queue))
    for key, state, why, do in node.keys:
        what = f"foreign key {key} is {_OFF.get(state, state)}"
        found.append(_finding(Severity.WARNING, "foreign-key", node, what, why, do, queue))
    for name, why in node.unfollowed:
        found.append(
            _finding(
                Severity.WARNING,
                "not-followed",
                node,
                f"{name} matches auto_add_tables and cannot be added",
                why,
                "correct that, the worker retries automatically; or name it in auto_add_exclude",
                queue,
            )
        )
    return found


#: Why a deferrable key is one that replicated rows may break.
_SHARED = "rows of several queues are"


def _deferrable(
    severity: Severity, node: NodeFacts, table: str, key: TableKey, whose: str, queue: str
) -> Finding:
    what = f"table {table}: constraint {key.name} is deferrable, {whose} not checked against it"
    do = (
        f"correct rows with equal values, if there are any, then, in the database of {node.name}:"
        f" {key.immediate}"
    )
    return _finding(severity, "key-deferrable", node, what, UNCHECKED, do, queue)


def _copy_state(node: NodeFacts, table: TableFacts) -> tuple[str, str]:
    """Why a table is not in sync, and what to do."""
    if table.error:
        return table.error, "correct that; the copy continues automatically"
    if node.copies_paused:
        return "copies are paused", f"with the settings of {node.name}: londiste copy resume"
    return (
        "its copy is running" if table.state else "its copy has not begun",
        "londiste copy status",
    )


_OFF = {
    "pending": "off",
    "unchecked": "restored, its rows are not validated",
    "checking": "being validated",
}


def _beside(node: NodeFacts, provider: NodeFacts, queue: str) -> list[Finding]:
    found = []

    def add(severity: Severity, kind: str, what: str, why: str, do: str) -> None:
        found.append(_finding(severity, kind, node, what, why, do, queue))

    kept = [name for name, theirs in provider.tables.items() if theirs.local]
    if node.is_lost and kept:
        what = f"it has lost its list of tables, node {provider.name} has {len(kept)}"
        why = "it applies no change of them: rows were deleted from londiste.table_info"
        do = f"with the settings of {node.name}: londiste add-table --all; they are copied again"
        add(Severity.WARNING, "no-tables", what, why, do)
        return found
    for name, theirs in provider.tables.items():
        ours = node.tables.get(name)
        if theirs.local and (ours is None or not ours.local):
            add(
                Severity.WARNING,
                "not-kept",
                f"table {name} of node {provider.name} is not replicated",
                "it was not added on this node",
                f"londiste add-table {argument(name)}",
            )
    for name, ours in node.tables.items():
        theirs_now = provider.tables.get(name)
        if not ours.local:
            continue
        if theirs_now is None:
            add(
                Severity.CRITICAL,
                "unknown-above",
                f"table {name} is replicated, but unknown on its provider {provider.name}",
                "the provider sends no changes of it",
                f"add it on the root, or: londiste remove-table {argument(name)}",
            )
        elif not theirs_now.local:
            add(
                Severity.WARNING,
                "not-above",
                f"table {name} is replicated, but its provider {provider.name} has no copy of it",
                "its changes arrive, but it cannot be copied from there again",
                f"on node {provider.name}: londiste add-table {argument(name)}; or londiste resync"
                f" {argument(name)}"
                " --find-copy-node",
            )
        elif theirs_now.columns and theirs_now.whole and ours.named - set(theirs_now.columns):
            gone = ", ".join(sorted(ours.named - set(theirs_now.columns)))
            add(
                Severity.WARNING,
                "rule-columns",
                f"table {name}: its rule names {gone}, which node {provider.name} does not have",
                "a column that was renamed is not masked or excluded any more, or is missing here",
                f"name the columns as they are now: londiste change-handler {argument(name)}; then:"
                f" londiste resync {argument(name)}",
            )
        elif ours.columns and theirs_now.columns:
            misread = misread_columns(ours, theirs_now)
            for column in misread:
                kind = theirs_now.columns[column]
                here = ours.columns[column]
                add(
                    Severity.CRITICAL,
                    "filter-types",
                    f"the filter of table {name} reads column {column}, which is {here} here and"
                    f" {kind} on node {provider.name}",
                    "rows that match on one node only are missing, or are too many",
                    f"give the column that type, then, with the settings of {node.name}:"
                    f" londiste resync {argument(name)}",
                )
            settings = f"with the settings of {node.name}: londiste"
            for text, wrong in _differences(ours.columns, compared(ours, theirs_now, misread)):
                retyped = (
                    ""
                    if wrong is None
                    else f"on node {node.name}: alter table {ours.dest} alter column"
                    f" {quote(wrong)} type {theirs_now.columns[wrong]}"
                )
                add(
                    Severity.WARNING,
                    "columns",
                    f"table {name}: {text} as on node {provider.name}",
                    "its values stop the worker, or are skipped"
                    if wrong is None
                    else "a value that its type here cannot store stops the worker, or is rounded"
                    " or cut without a message",
                    f"{retyped}; then, {settings} compare {argument(name)}"
                    if retyped
                    else f"{settings} columns {argument(name)} --add",
                )
    for name, ours in node.tables.items():
        above = provider.tables.get(name)
        for key in unchecked_keys(ours, above) if above is not None and above.local else ():
            whose = f"node {provider.name} does not have it and replicated rows are"
            found.append(_deferrable(Severity.WARNING, node, name, key, whose, queue))
    for name, value in provider.sequences.items():
        if value is not None and node.sequences.get(name) is None:
            add(
                Severity.WARNING,
                "sequence-not-kept",
                f"sequence {name} of node {provider.name} is not replicated",
                "after a takeover it would return old values again",
                f"londiste add-seq --create {argument(name)}",
            )
    return found


def _differences(
    ours: Mapping[str, str], theirs: Mapping[str, str]
) -> list[tuple[str, str | None]]:
    """What differs, and the column that has another type."""
    found: list[tuple[str, str | None]] = [
        (f"column {name} is not there", None) for name in theirs if name not in ours
    ]
    return found + [
        (f"column {name} is {ours[name]}, not {kind}", name)
        for name, kind in theirs.items()
        if name in ours and ours[name] != kind
    ]


def _finding(
    severity: Severity, kind: str, node: NodeFacts, what: str, why: str, do: str, queue: str
) -> Finding:
    return Finding(severity, kind, f"node {node.name}: {what}", why, do, queue)
