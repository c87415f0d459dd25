"""Repair of differing rows: creates a plan from differences, and applies it.

A plan is applied with the worker held at a tick that both sides are at.  Every row of the plan is
checked again at that tick: rows that changed on either side are skipped.  The
worker's position is locked in the transaction that writes, so replication cannot write in
between; and each statement must hit one row, or nothing is written.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.compare import recheck as rows
from londiste.compare import sqlapi as progress
from londiste.compare.column_pairing import Pairing
from londiste.compare.compare import both_sides, moved
from londiste.compare.context import Asked, Parties, choose, meet, open_session, pair_up
from londiste.compare.diff import DIFFERS, EXTRA, MISSING, Row, RowDifference
from londiste.compare.pause_at_tick import Aligned
from londiste.compare.repair_plan import (
    RepairChange,
    Rules,
    changes,
    in_order,
    text,
    too_long,
    verify,
)
from londiste.compare.result import Comparison
from londiste.compare.row_diff import Suspect
from londiste.compare.row_text import fields, lines
from londiste.daemon import crash
from londiste.db import catalog, owner
from londiste.db.connection import Connection, describe_dsn, keep_role, session
from londiste.db.ddl import typed
from londiste.db.names import argument
from londiste.db.queries import translated, tuples
from londiste.engine.row_hash import key_hash
from londiste.error_values import Values
from londiste.errors import StateError, TransientError, from_database
from londiste.replication.forwarding.combined_queue import others_filling
from londiste.settings import WorkerSettings

_ATTEMPTS = 5
_KEYS = 500
#: Seconds for which the server keeps the lock of the worker's position for a silent process.
_IDLE_SECONDS = 10 * 60
#: SQLSTATE of a text or bit string that does not fit.
_TOO_LONG = {"22001", "22026"}
#: SQLSTATE of a value that another row has.
_TAKEN = {"23505", "23P01"}
#: Characters of a key that are shown.
_SHOWN = 200


@dataclass(frozen=True)
class Applied:
    """Result of a repair: rows that were written, and changes that were stale.

    skipped -- table, key and reason of each stale change.
    """

    tick_id: int
    rows: int
    stale: tuple[RepairChange, ...]
    skipped: tuple[str, ...] = ()


def planned(settings: WorkerSettings, compared: Comparison, asked: Asked) -> list[RepairChange]:
    """The changes that make the node's tables equal to the root's, without rows of others.

    Rows that the root does not have are left alone without a condition if the node's table keeps
    rows of others (``left_alone``).

    Raises StateError when not all differing rows are known, and when the rows of a table come
    from several sources, so that extra rows cannot be identified.
    """
    found: list[RepairChange] = []
    with _session(settings) as conn:
        for result in compared.tables:
            table = result.pairing
            if result.more:
                raise StateError(
                    f"table {table.name}: more than {asked.limit} rows differ",
                    hint=f"raise --limit, or select rows: {_selected(table)}"
                    if table.pair.beside
                    else "raise --limit, or copy the table again: londiste resync"
                    f" {argument(table.name)}",
                )
            if table.unknown and result.counts()[MISSING]:
                raise StateError(
                    f"table {table.name}: missing rows cannot be restored completely",
                    detail="other nodes change values on the way:"
                    f" {', '.join(sorted(table.unknown))}",
                    hint=f"copy it again: londiste resync {argument(table.name)}",
                )
            if not asked.where and result.counts()[EXTRA]:
                _require_own_rows(conn, settings.queue_name, table)
            known = result.differences
            if table.pair.beside and not asked.where:
                known = tuple(one for one in known if one.kind != EXTRA)
            found += changes(table, known, rules(conn, table))
    return in_order(found)


def left_alone(compared: Comparison, asked: Asked) -> list[str]:
    """Rows that ``planned`` leaves alone because they may be rows of others: a line per table."""
    return [
        f"table {result.table}: {result.counts()[EXTRA]} rows that the root does not have are left"
        " alone: the table keeps rows of others (skip_truncate); to delete rows that are not"
        f" theirs: {_selected(result.pairing)}"
        for result in compared.tables
        if result.pairing.pair.beside and not asked.where and result.counts()[EXTRA]
    ]


def _session(settings: WorkerSettings, dsn: str = "") -> AbstractContextManager[Connection]:
    return open_session(settings, dsn, "londiste repair")


def _selected(table: Pairing) -> str:
    return f"londiste repair {argument(table.name)} --where \"region = 'eu'\""


def _require_own_rows(conn: Connection, queue: str, table: Pairing) -> None:
    """Raises StateError if other sources fill the table: rows to delete may be theirs."""
    dest = str(table.pair.dest)
    queues = [str(row[0]) for row in tuples(conn, "other_queues_of_table", dest=dest, queue=queue)]
    others = queues or others_filling(conn, queue, table.pair.table, table.pair.dest)
    if others:
        raise StateError(
            f"table {table.pair.dest}: rows come from other {'queues' if queues else 'tables'} too:"
            f" {', '.join(others)}",
            detail="rows that do not exist on this queue's root may belong to those"
            if queues
            else "rows that the table does not have on the root may belong to those",
            hint=f"select the rows of this one: {_selected(table)}",
        )


def written(
    settings: WorkerSettings,
    found: Sequence[RepairChange],
    tick: int,
    where: str = "",
    *,
    command: str,
) -> str:
    """The plan as a file; where -- condition of the comparison; command -- applies the plan."""
    with _session(settings) as conn:
        node = nodes.get_node_info(conn, settings.queue_name).name
    made = datetime.now(UTC).isoformat(timespec="seconds")
    queue = settings.queue_name
    return text(
        found, queue=queue, node=node, tick=tick, made=made, condition=where, command=command
    )


def rules(conn: Connection, table: Pairing) -> Rules:
    """Rules that unique indexes and identity columns of the target impose on statements."""
    unique: set[str] = set()
    for index in catalog.indexes(conn, table.pair.dest):
        if index.unique and not index.primary:
            # Without a list of columns it has expressions, which may read any.
            unique |= set(index.key or table.columns)
    for constraint in catalog.constraints(conn, table.pair.dest):
        if constraint.kind == "x":
            unique |= set(table.columns)
    for column in catalog.columns(conn, table.pair.dest):
        if column.identity == "a":
            unique.add(column.name)
    return Rules(frozenset(unique))


def apply(
    settings: WorkerSettings,
    plan: Sequence[RepairChange],
    *,
    timeout: float,
    say: Callable[[str], None],
    where: str = "",
    condition: str = "",
) -> Applied:
    """Writes what a plan says, in one transaction on this node, at one tick.

    where -- the file that it was read from, '' if from none: then its statements are held against
        what its rows come to.
    condition -- SQL condition of the comparison that the plan is from.

    Rows that have changed since the plan was made are left alone.  Raises BadOption for a
    statement that was edited, StateError when one does not hit exactly one row, or deletes a row
    that may be one of others; then nothing was written.
    """
    names = list(dict.fromkeys(change.table for change in plan))
    with contextlib.ExitStack() as stack:
        conn = stack.enter_context(_session(settings))
        chosen = choose(settings, conn, names)
        parties = stack.enter_context(meet(settings, conn, chosen, say))
        with _session(settings, parties.root_dsn) as root:
            paired = {
                str(t.name): pair_up(root, conn, t, Asked(), parties.held, queue=parties.queue)
                for t in chosen
            }
        suspects = {name: _suspects(conn, paired[name], plan) for name in names}
        for name in names if where else ():
            mine = [change for change in plan if change.table == name]
            verify(paired[name], mine, rules(conn, paired[name]), where)
            if not condition and any(one.difference.kind == EXTRA for one in mine):
                _require_own_rows(conn, settings.queue_name, paired[name])
                _require_sole(paired[name], where)
        for _ in range(_ATTEMPTS):
            with parties.aligned(timeout, hold=True) as at:
                done = _at_tick(parties, at, paired, suspects, plan)
            if done is not None:
                return done
            say("truncated, rewritten or replicated during the repair, retrying")
    raise TransientError(
        f"rows of the plan changed in each of {_ATTEMPTS} attempts",
        hint="repeat the command when there is less TRUNCATE and ALTER TABLE",
    )


def _require_sole(table: Pairing, where: str) -> None:
    if table.pair.beside:
        raise StateError(
            f"{where}: deletes rows of table {table.name}, which keeps rows of others"
            " (skip_truncate)",
            detail="the plan was created without --where; nothing was written",
            hint=f"create it for the rows of this table: {_selected(table)} --plan FILE",
        )


def _at_tick(
    parties: Parties,
    at: Aligned,
    paired: dict[str, Pairing],
    suspects: dict[str, list[Suspect]],
    plan: Sequence[RepairChange],
) -> Applied | None:
    """Looks at the rows again and writes; None when that has to be tried at another tick."""
    dsn = parties.settings.db
    with (
        session(
            dsn,
            name="londiste repair",
            replica=True,
            idle_timeout_ms=_IDLE_SECONDS * 1000,
            silent_seconds=at.answer_seconds,
        ) as node,
        both_sides(at) as (root, _),
    ):
        if progress.repair_lock(node, parties.queue, parties.info.worker) != at.tick_id:
            return None
        now: dict[str, Counter[RowDifference]] = {}
        for name, table in paired.items():
            now[name] = Counter(rows.look(root, node, table, suspects[name]))
            if moved(root, node, table):
                return None
        fresh, stale = _sorted_out(plan, now)
        with translated(describe_dsn(dsn), Values.INSIDE):
            keep_role(node)
            node.execute("set constraints all deferred")
            for change in in_order(fresh):
                _one(node, change, paired[change.table])
                crash.point("repair.mid-plan")
            node.commit()
    # A row that is deleted and inserted counts once.
    twice = sum(c.verb == "insert" and c.difference.kind == DIFFERS for c in fresh)
    skipped = tuple(_skipped(one, paired[one.table], now[one.table]) for one in stale)
    return Applied(at.tick_id, len(fresh) - twice, tuple(stale), skipped)


def _skipped(change: RepairChange, table: Pairing, now: Counter[RowDifference]) -> str:
    """A stale change in one line."""
    if any(one.key == change.difference.key for one in now):
        return f"{_row(change, table)}: skipped, it has changed since"
    return f"{_row(change, table)}: already equal"


def _row(change: RepairChange, table: Pairing) -> str:
    """The table and the key of a change; of a table without key the table alone."""
    if not table.key:
        # Then all its values would be shown.
        return f"{change.table}: a row"
    values = ", ".join("NULL" if value is None else value for value in change.difference.key)
    more = "…" if len(values) > _SHOWN else ""
    return f"{change.table}: row ({', '.join(table.found_by)}) = ({values[:_SHOWN]}{more})"


def _sorted_out(
    plan: Sequence[RepairChange], now: dict[str, Counter[RowDifference]]
) -> tuple[list[RepairChange], list[RepairChange]]:
    """(changes whose rows are what they were, the others)."""
    fresh: list[RepairChange] = []
    stale: list[RepairChange] = []
    used: dict[tuple[str, str], Counter[RowDifference]] = {}
    for change in plan:
        # A row that is deleted and inserted has one change for each.
        seen = used.setdefault((change.table, change.verb), Counter())
        seen[change.difference] += 1
        known = now[change.table][change.difference] >= seen[change.difference]
        (fresh if known else stale).append(change)
    return fresh, stale


def _one(node: Connection, change: RepairChange, table: Pairing) -> None:
    try:
        hit = owner.run(node, table.pair.dest, change.statement)
    except psycopg.Error as error:
        if error.sqlstate in _TOO_LONG and (columns := too_long(table, change)):
            raise StateError(
                f"table {table.pair.dest}: a value of the root is too long for column"
                f" {' or '.join(columns)}",
                detail="nothing was written, and no value was cut",
                hint="give the column the type that it has on the root: londiste columns"
                f" {argument(table.name)}",
            ) from error
        ours = from_database(error, where=describe_dsn(node.info.dsn), values=Values.INSIDE)
        ours.say_more(f"nothing was written; {change.verb} of {_row(change, table)}")
        if error.sqlstate in _TAKEN and change.verb == "update" and table.only_here:
            # The row cannot be deleted and inserted, because its other values would be lost.
            ours.say_more(
                "the value is still that of another row; columns that only this node has keep both"
                " rows from being deleted and inserted",
                "give one of the rows of"
                f" {table.pair.dest} on this node an unused value in the unique column, then"
                f" repeat: londiste repair {argument(table.name)} --apply",
            )
        raise ours from error
    if hit != 1:
        raise StateError(
            f"table {change.table}: a statement of the plan hits {hit} rows, expected 1",
            detail=f"nothing was written; {change.verb} of {_row(change, table)}",
            hint="stop other writers of the target table, then create the plan again",
        )


def _suspects(conn: Connection, table: Pairing, plan: Sequence[RepairChange]) -> list[Suspect]:
    """The keys of a table's changes, with the hashes by which rows without an index are found."""
    keys: list[Row] = list(dict.fromkeys(c.difference.key for c in plan if c.table == table.name))
    width = len(table.found_by)
    if any(len(key) != width for key in keys):
        raise StateError(
            f"table {table.name}: its columns have changed since the plan was created",
            hint=f"create the plan again: londiste repair {argument(table.name)}",
        )
    types = [table.type_of(name) for name in table.found_by]
    found: list[Suspect] = []
    for start in range(0, len(keys), _KEYS):
        some = keys[start : start + _KEYS]
        hashes = ", ".join(
            "("
            + key_hash(
                conn,
                list(map(typed, key, types)),
            )
            + ")"
            for key in some
        )
        texts = lines(conn, conn.info.dsn, f"copy (values {hashes}) to stdout")
        found += [
            Suspect(key, int(fields(line)[0] or 0)) for key, line in zip(some, texts, strict=True)
        ]
    return found
