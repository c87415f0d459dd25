"""Examines one or two databases: collects facts, runs all checks.  Writes to no database."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from londiste.db.advisory_lock import same_database
from londiste.db.connection import Connection, session
from londiste.db.queries import translated
from londiste.db.structure.types import WHOLE
from londiste.embedded.java import find_java
from londiste.errors import (
    AccessDenied,
    BadOption,
    LondisteError,
    NodeUnreachable,
    NotSecured,
    SharedBackend,
    UsageError,
)
from londiste.monitor.doctor import collect
from londiste.monitor.doctor.checks import ALL
from londiste.monitor.doctor.facts import DatabaseFacts
from londiste.monitor.doctor.situation import (
    DoctorLimits,
    ProgramFacts,
    Situation,
    critical,
    warning,
)
from londiste.monitor.queues.model import Finding
from londiste.monitor.verdict import READ_FROM
from londiste.replication.commands.create_table import foresee
from londiste.standby import server as standby

#: Milliseconds for one statement, and for a lock.
_STATEMENT_MS, _LOCK_MS = 15_000, 1_000

#: Errors of a connection, and the finding that each becomes.
_REFUSED: tuple[tuple[type[LondisteError], str], ...] = (
    (SharedBackend, "pooler"),
    (NotSecured, "tls"),
    (AccessDenied, "access"),
    (NodeUnreachable, "unreachable"),
    # No such database.
    (UsageError, "unreachable"),
)


def examine(
    source: str, target: str | None = None, tables: Sequence[str] = (), **options: Any
) -> list[Finding]:
    """All findings about a source, and a target, of replication; the worst first.

    The arguments are those of ``look``.
    """
    failed, here = look(source, target, tables, **options)
    # What can be said of a target alone, it is as a source.
    return worst_first(failed if here is None else [*failed, *findings(here)])


def findings(pair: Situation) -> list[Finding]:
    """Pure: the findings of all checks about a situation, in the order of their list."""
    return list(run_checks(with_held(pair)))


def look(
    source: str,
    target: str | None = None,
    tables: Sequence[str] = (),
    *,
    exclude: Sequence[str] = (),
    engine: str = "local",
    start_spark: bool = False,
    limits: DoctorLimits | None = None,
    whole_rows: bool = False,
    read_from: str = "",
) -> tuple[list[Finding], Situation | None]:
    """What the checks decide on; None without a source, and findings about what was not reached.

    source, target -- connection strings.  Without a target the source alone is examined.
    tables, exclude -- names or patterns with * and ?; no tables: all.
    whole_rows -- tables without key will be added by whole rows.
    read_from -- connection string of a standby of the source, from which batches will be read.
    engine -- of the copies; start_spark -- also start Spark, which takes some seconds.

    A database that cannot be reached is a finding.  Raises BadOption for what is no connection
    string.
    """
    program = program_facts(engine, start_spark=start_spark)
    facts: list[DatabaseFacts | None] = [None, None]
    failed: list[Finding] = []
    same = False
    here = None
    with contextlib.ExitStack() as stack:
        conns: list[Connection] = []
        for place, (side, dsn) in enumerate((("source", source), ("target", target))):
            if dsn is None:
                continue
            try:
                conn = stack.enter_context(_reading(dsn))
                facts[place] = collect.examine(conn, dsn, rows=side == "target", waits=False)
                conns.append(conn)
            except LondisteError as error:
                failed.append(_unreached(side, error))
        if len(conns) == 2:
            with translated(conns[1]):
                same = same_database(*conns)
        if read_from and facts[0] is not None:
            failed += _standby_findings(read_from, conns[0])
        ours, theirs = facts
        if ours is not None:
            here = Situation(
                ours,
                theirs,
                tables=tables,
                excluded=exclude,
                same=same,
                whole_rows=whole_rows,
                program=program,
                limits=limits or DoctorLimits(),
            )
        if here is not None and len(conns) == 2 and not same:
            # A name that the target's encoding lacks is another finding.
            with contextlib.suppress(LondisteError):
                here = _with_obstacles(here, *conns)
    return failed, here


def run_checks(pair: Situation) -> Iterator[Finding]:
    """The findings of all checks, in the order of their list."""
    for one in ALL:
        yield from one.check(pair)


def worst_first(found: Iterable[Finding]) -> list[Finding]:
    """Findings by severity; those of one severity keep their order."""
    return sorted(found, key=lambda one: -one.severity)


def with_held(pair: Situation) -> Situation:
    """The situation with the tables of the target whose rows a copy would replace."""
    if pair.target is None or pair.same:
        return pair
    held = {
        table.name: table
        for table in pair.wanted
        if table.name in pair.target.more.with_rows and not pair.target.replicates(table)
    }
    # A copy replaces the rows of all partitions.
    tops = [name for name, table in held.items() if table.tree == name or table.tree not in held]
    return replace(pair, held=[str(name) for name in tops])


def _with_obstacles(pair: Situation, source: Connection, target: Connection) -> Situation:
    """The situation with code and missing objects of the tables which the target lacks."""
    assert pair.target is not None
    there = {table.name for table in pair.target.tables}
    locked = {one.name for one in pair.source.more.locked}
    locked |= {t.tree for t in pair.source.tables if t.name in locked}
    missing = {
        t.name: t.name
        for t in pair.wanted
        if t.replicated and t.name not in there and locked.isdisjoint((t.name, t.tree))
    }
    if not missing:
        return pair
    found = foresee(source, target, missing, WHOLE, needs=True)
    return replace(pair, code=found.code, lacks=found.lacks)


def program_facts(engine: str, *, start_spark: bool = False) -> ProgramFacts:
    """What this host has for an engine."""
    if engine != "spark":
        return ProgramFacts(engine)
    java = spark = None
    try:
        find_java()
    except LondisteError as error:
        java = (error.message, error.hint)
    if importlib.util.find_spec("pyspark") is None:
        spark = ("Spark is not installed", "pip install 'londiste[spark]'")
    elif start_spark and java is None:
        from londiste.engine.spark import session as sessions

        try:
            sessions.get({})
            sessions.stop()
        except LondisteError as error:
            spark = (f"Spark does not start: {error.message}", error.hint)
    return ProgramFacts(engine, java, spark)


@contextlib.contextmanager
def _reading(dsn: str) -> Iterator[Connection]:
    """A session that cannot write, and waits for nothing longer than a moment."""
    with session(
        dsn,
        name="londiste doctor",
        autocommit=True,
        lock_timeout_ms=_LOCK_MS,
        statement_timeout_ms=_STATEMENT_MS,
        answer_seconds=_STATEMENT_MS / 1000 + 5,
        # What cannot be trusted is a finding, and the rest is examined.
        guarded=False,
    ) as conn:
        conn.execute("set default_transaction_read_only = on")
        yield conn


def _standby_findings(dsn: str, source: Connection) -> Iterator[Finding]:
    """Why the standby of the settings would not be read."""
    try:
        standby.open_session(
            dsn, standby.look(source), name="londiste doctor", answer_seconds=_STATEMENT_MS / 1000
        ).close()
    except LondisteError as error:
        yield warning(
            READ_FROM,
            f"the standby of read_from: {error.message}",
            "batches, copies and comparisons read from the provider",
            error.hint or standby.HINT,
            side="source",
        )


def _unreached(side: str, error: LondisteError) -> Finding:
    for kind, word in _REFUSED:
        if isinstance(error, kind) and not isinstance(error, BadOption):
            return critical(
                word,
                f"the {side} database: {error.message}",
                error.detail or "nothing of it was checked",
                error.hint or "correct the connection string",
                side=side,
            )
    raise error
