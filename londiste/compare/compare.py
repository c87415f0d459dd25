"""Comparison run: tables, chunks, ticks, checksums, and the recheck of suspects.

pieces of all tables, in waves ── checksums ── those that differ: drill ── suspects
    a tick and a snapshot for each wave                                       │
suspects, all tables together ── recheck at a later tick ── differences  ◄────┘
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from londiste.compare import chunks, recheck
from londiste.compare import sqlapi as progress
from londiste.compare.checksum import Piece, PieceResult, compare, waves
from londiste.compare.column_pairing import Pairing
from londiste.compare.context import (
    Asked,
    Parties,
    choose,
    held_from,
    meet,
    open_session,
    pair_up,
    require_one_source,
    require_subscriber,
    root_location,
)
from londiste.compare.pause_at_tick import Aligned
from londiste.compare.result import Comparison, TableResult, first_of
from londiste.compare.row_diff import Drill, Suspect, drill, narrow
from londiste.daemon import crash
from londiste.db import catalog
from londiste.db.connection import Connection
from londiste.db.queries import savepoint
from londiste.engine.tasks import snapshot_session
from londiste.errors import LondisteError, StateError, TransientError, UnknownTable
from londiste.settings import WorkerSettings

#: Attempts to compare a table that is truncated or rewritten each time before it is read.
_ATTEMPTS = 5


@dataclass
class _Found:
    """State of one table's comparison; done: the numbers of the chunks that are counted."""

    pairing: Pairing
    ranges: int = 1
    known: int = 0
    rows_root: int = 0
    rows_node: int = 0
    unequal: bool = False
    suspects: list[Suspect] = field(default_factory=list)
    more: bool = False
    done: set[int] = field(default_factory=set)


def compare_tables(
    settings: WorkerSettings,
    asked: Asked,
    *,
    say: Callable[[str], None],
    done: Callable[[TableResult], None],
    failing: Callable[[Comparison], None] = lambda result: None,
) -> Comparison:
    """Compares tables of this node with the root's; ``done`` gets each result as it is known.

    Tables that are truncated or rewritten before they are read are compared again, at another
    tick.  Raises StateError on a root, when a table is not in sync or truncated each time, or
    when the worker does not reach the tick in time; UnknownTable for a name that is not
    replicated on this node.  An error of one table is raised when the others are compared and
    ``failing`` has their results.
    """
    with contextlib.ExitStack() as stack:
        conn = stack.enter_context(open_session(settings))
        chosen = choose(settings, conn, asked.tables)
        if not asked.where:
            require_one_source(conn, settings.queue_name, chosen)
        parties = stack.enter_context(meet(settings, conn, chosen, say))
        paired: list[Pairing] = []
        failed: dict[str, LondisteError] = {}
        with open_session(settings, parties.root_dsn) as root:
            for table in chosen:
                try:
                    paired.append(
                        pair_up(root, conn, table, asked, parties.held, queue=parties.queue)
                    )
                except UnknownTable as error:
                    if len(chosen) == 1:
                        raise
                    failed[str(table.name)] = error
            found, todo = _plan(root, conn, parties.queue, paired, asked)
        tick = _checksums(parties, conn, asked, found, todo, failed)
        tick, results = _second_look(parties, asked, found, tick, done, failed)
        result = Comparison(tick, results, failed)
        if failed:
            failing(result)
            raise first_of(failed, parties.say)
        _remember(conn, parties.queue, results, asked)
        return result


def _plan(
    root: Connection, conn: Connection, queue: str, paired: Sequence[Pairing], asked: Asked
) -> tuple[dict[str, _Found], list[Piece]]:
    """Splits the tables, or resumes the ranges of an interrupted comparison."""
    found: dict[str, _Found] = {}
    todo: list[Piece] = []
    begun: list[progress.Begun] = []
    before: dict[str, list[progress.ComparedRange]] = {}
    if asked.resume:
        for one in progress.compare_ranges(conn, queue, progress.COMPARE):
            before.setdefault(one.table_name, []).append(one)
    for table in paired:
        cut = chunks.cut(root, conn, table)
        known: set[int] = set()
        ranges = before.get(table.name, [])
        if ranges and ranges[0].signature == progress.signature(table):
            known = {r.number for r in ranges if r.differs == 0}
            if len(ranges) > 1:
                cut = tuple(Piece(table, r.number, r.condition, r.buckets) for r in ranges)
        elif not asked.count_only:
            begun.append((table, [(piece.condition, piece.buckets) for piece in cut]))
        found[table.name] = _Found(table, len(cut), len(known))
        todo += [piece for piece in cut if piece.number not in known]
    progress.compare_begin(conn, queue, progress.COMPARE, begun)
    return found, todo


def _checksums(
    parties: Parties,
    conn: Connection,
    asked: Asked,
    found: dict[str, _Found],
    todo: Sequence[Piece],
    failed: dict[str, LondisteError],
) -> int:
    """Compares all chunks, collects suspects and stores equal ranges.  Returns the last tick.

    failed -- gets the error of each table that cannot be read.
    """
    tick = 0
    for wave in waves(todo):
        left = _open(wave, found, failed)
        for _ in range(_ATTEMPTS):
            if not left:
                break
            with parties.aligned(asked.timeout) as at:
                tick = at.tick_id
                try:
                    left = _separated(parties, conn, asked, found, at, left, failed)
                except TransientError as error:
                    parties.lost(at, error)
                    left = _open(left, found, failed)
            if not left:
                break
            names = ", ".join(sorted({piece.table.name for piece in left}))
            parties.say(f"truncated or rewritten during the comparison, comparing again: {names}")
        else:
            failed.update((piece.table.name, _moving(piece.table.name)) for piece in left)
    return tick


def _open(
    pieces: Sequence[Piece], found: Mapping[str, _Found], failed: Mapping[str, LondisteError]
) -> list[Piece]:
    """The chunks that are not counted yet, without those of tables that have failed."""
    return [
        piece
        for piece in pieces
        if piece.table.name not in failed and piece.number not in found[piece.table.name].done
    ]


def _separated(
    parties: Parties,
    conn: Connection,
    asked: Asked,
    found: dict[str, _Found],
    at: Aligned,
    wave: Sequence[Piece],
    failed: dict[str, LondisteError],
) -> list[Piece]:
    """As ``_wave``; after an error each table of the wave is read on its own."""
    names = list(dict.fromkeys(piece.table.name for piece in wave))
    try:
        return _wave(parties, conn, asked, found, at, wave)
    except TransientError:
        raise
    except LondisteError as error:
        if len(names) == 1:
            failed[names[0]] = error
            return []
    again: list[Piece] = []
    for name in names:
        mine = _open([piece for piece in wave if piece.table.name == name], found, failed)
        again += _separated(parties, conn, asked, found, at, mine, failed) if mine else []
    return again


def _moving(name: str) -> StateError:
    return StateError(
        f"table {name}: truncated or rewritten in each of {_ATTEMPTS} attempts",
        detail="a snapshot from before TRUNCATE or ALTER TABLE does not see the rows",
        hint="compare again when there is less TRUNCATE and ALTER TABLE",
    )


def _wave(
    parties: Parties,
    conn: Connection,
    asked: Asked,
    found: dict[str, _Found],
    at: Aligned,
    wave: Sequence[Piece],
) -> list[Piece]:
    """Compares chunks at one tick.  Returns those that DDL removed before they were read."""
    again: list[Piece] = []
    unequal: list[PieceResult] = []
    for result in compare(at, wave, parties.engine, parties.parallel, count_only=asked.count_only):
        if result.moved:
            again.append(result.piece)
        elif result.differing or (result.piece.table.masked and not asked.count_only):
            unequal.append(result)
        else:
            _note(found, result)
            if not asked.count_only:
                _equal(conn, parties.queue, at, result)
        crash.point("compare.mid-wave")
    for result in _narrowed(parties, at, asked, found, unequal):
        state = found[result.piece.table.name]
        if asked.count_only:
            _note(found, result)
            state.unequal = True
            continue
        if result.moved:
            again.append(result.piece)
            continue
        room = asked.limit - len(state.suspects)
        if room <= 0:
            _note(found, result)
            state.more = True
            continue
        (drilled,) = parties.engine.run(drill, [drill_task(at, result, room)], 1)
        if drilled.moved:
            again.append(result.piece)
            continue
        _note(found, result)
        state.suspects += drilled.suspects
        state.unequal = state.unequal or not (drilled.suspects or result.piece.table.masked)
        state.more = state.more or drilled.more
        if not drilled.suspects and result.piece.table.masked:
            _equal(conn, parties.queue, at, result)
    return again


def _narrowed(
    parties: Parties,
    at: Aligned,
    asked: Asked,
    found: dict[str, _Found],
    unequal: Sequence[PieceResult],
) -> Iterator[PieceResult]:
    """The results; those of tables below the limit of suspects are split into buckets."""
    for start in range(0, len(unequal), parties.parallel):
        some = unequal[start : start + parties.parallel]
        full = asked.count_only or all(
            len(found[r.piece.table.name].suspects) >= asked.limit for r in some
        )
        yield from some if full else narrow(at, some, parties.engine, parties.parallel)


def drill_task(at: Aligned, result: PieceResult, limit: int) -> Drill:
    if result.piece.table.masked:
        return Drill(at, result.piece, (), max(result.rows_root, result.rows_node), limit)
    among = tuple(bucket for bucket, _ in result.differing) if result.piece.buckets > 1 else ()
    return Drill(at, result.piece, among, sum(count for _, count in result.differing), limit)


def _note(found: dict[str, _Found], result: PieceResult) -> None:
    state = found[result.piece.table.name]
    state.rows_root += result.rows_root
    state.rows_node += result.rows_node
    state.done.add(result.piece.number)


def _equal(conn: Connection, queue: str, at: Aligned, result: PieceResult) -> None:
    progress.compare_done(
        conn,
        queue,
        progress.COMPARE,
        result.piece.table.name,
        result.piece.number,
        tick=at.tick_id,
        rows=result.rows_root,
        differs=0,
    )


def _second_look(
    parties: Parties,
    asked: Asked,
    found: dict[str, _Found],
    tick: int,
    done: Callable[[TableResult], None],
    failed: dict[str, LondisteError],
) -> tuple[int, tuple[TableResult, ...]]:
    """Rechecks all suspects at a later tick; ``failed`` gets the errors of further tables."""
    readable = {name: state for name, state in found.items() if name not in failed}
    results = {name: _result(state) for name, state in readable.items() if not state.suspects}
    left = {name: state for name, state in readable.items() if state.suspects}
    for result in results.values():
        done(result)
    for _ in range(_ATTEMPTS):
        if not left:
            break
        with parties.aligned(asked.timeout) as at:
            tick = at.tick_id
            try:
                for name, known in _rechecked(at, left):
                    del left[name]
                    if isinstance(known, LondisteError):
                        failed[name] = known
                        continue
                    results[name] = known
                    done(known)
            except TransientError as error:
                parties.lost(at, error)
    failed.update((name, _moving(name)) for name in left)
    return tick, tuple(results[name] for name in found if name in results)


def _rechecked(
    at: Aligned, left: Mapping[str, _Found]
) -> Iterator[tuple[str, TableResult | LondisteError]]:
    """The results of the tables whose suspects could be read again, or why they never can."""
    with both_sides(at) as (root, node):
        for name, state in list(left.items()):
            table = state.pairing
            try:
                with savepoint(root), savepoint(node):
                    differences = recheck.look(root, node, table, state.suspects)
            except TransientError:
                raise
            except LondisteError as error:
                yield name, error
                continue
            if moved(root, node, table):
                continue
            yield (
                name,
                TableResult(
                    table,
                    state.rows_root,
                    state.rows_node,
                    not (differences or state.more or state.unequal or table.lacking),
                    tuple(differences),
                    state.more,
                    max(0, len(state.suspects) - len({d.key for d in differences})),
                    state.ranges,
                    state.known,
                ),
            )


@contextlib.contextmanager
def both_sides(at: Aligned) -> Iterator[tuple[Connection, Connection]]:
    """A session on each side, in the snapshot of the tick."""
    name, limit = "londiste compare", at.answer_seconds
    with snapshot_session(at.root_dsn, at.root_snapshot, name, answer_seconds=limit) as root:
        with snapshot_session(at.node_dsn, at.node_snapshot, name, answer_seconds=limit) as node:
            yield root, node


def moved(root: Connection, node: Connection, table: Pairing) -> bool:
    """Whether DDL invalidated what these sessions read of a table."""
    return catalog.moved(root, table.pair.table) or catalog.moved(node, table.pair.dest)


def _result(state: _Found) -> TableResult:
    return TableResult(
        state.pairing,
        state.rows_root,
        state.rows_node,
        not (state.unequal or state.more or state.pairing.lacking),
        ranges=state.ranges,
        ranges_known=state.known,
    )


def _remember(conn: Connection, queue: str, results: Sequence[TableResult], asked: Asked) -> None:
    """Deletes the stored ranges of equal tables; --resume starts them again."""
    if not asked.count_only:
        equal = [result.table for result in results if result.equal]
        progress.compare_forget(conn, queue, progress.COMPARE, equal)


@dataclass(frozen=True)
class ExplainedTable:
    """How a table would be compared: with `--dry-run`.

    here -- its name on this node.
    found_by -- columns that identify a row.
    cut, ranges, buckets -- the parts.
    where -- condition that chooses the rows.
    """

    table: str
    here: str
    found_by: str
    ranges: int
    buckets: int
    cut: str
    where: str
    skipped_columns: list[str]


def explain(settings: WorkerSettings, asked: Asked) -> list[ExplainedTable]:
    """How each table would be compared; reads catalogs and a sample of the keys."""
    result = []
    with open_session(settings) as conn:
        chosen = choose(settings, conn, asked.tables)
        info = require_subscriber(settings, conn)
        held = held_from(settings, info)
        with open_session(settings, root_location(settings, info)) as root:
            for replicated in chosen:
                table = pair_up(root, conn, replicated, asked, held, queue=settings.queue_name)
                cut = chunks.cut(root, conn, table)
                result.append(
                    ExplainedTable(
                        table=table.name,
                        here=str(table.pair.dest),
                        found_by=", ".join(table.key) or "the whole row",
                        ranges=len(cut),
                        buckets=cut[0].buckets,
                        cut=f"{len(cut)} ranges" if len(cut) > 1 else f"{cut[0].buckets} buckets",
                        where=table.root_where,
                        skipped_columns=list(table.skipped),
                    )
                )
    return result
