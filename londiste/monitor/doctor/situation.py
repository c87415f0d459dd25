"""What the checks decide on: facts of both databases, and what is planned with them."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from londiste.db.names import TableName
from londiste.db.structure.types import Lack
from londiste.monitor.doctor.facts import DatabaseFacts, Table
from londiste.monitor.queues.model import Finding, Severity
from londiste.replication.patterns import matches
from londiste.settings import WorkerSettings


@dataclass(frozen=True)
class DoctorLimits:
    """Limits above which a fact is a finding.

    transaction -- seconds for which a transaction is open: capture triggers wait for its end.
    keyless_rows -- rows of a table without key, from which on each change is slow.
    sessions, fewest -- sessions that a node needs at work, and to work at all.
    clock -- seconds between the clocks of both servers.
    spark_bytes -- size of a table, from which on Spark copies it.
    """

    transaction: float = 60.0
    keyless_rows: int = 100_000
    sessions: int = 10
    fewest: int = 4
    clock: float = 2.0
    spark_bytes: int = WorkerSettings.model_fields["spark_min_bytes"].default


@dataclass(frozen=True)
class ProgramFacts:
    """What this host has for the engine of copies.

    engine -- spark or local.  java, spark -- message and hint of what is missing; None: works.
    """

    engine: str = "local"
    java: tuple[str, str] | None = None
    spark: tuple[str, str] | None = None


@dataclass(frozen=True)
class Situation:
    """Two databases, or one, and the plan.

    target -- None: the source alone is examined.
    names -- what messages call the two.
    tables, excluded -- names or patterns of the tables that are wanted; no tables: all.
    chosen -- the tables that are wanted, instead of patterns.
    whole -- the whole database moves, and may move back (migrate).
    whole_rows -- tables without key are added by whole rows.
    compared -- tables that exist on both sides have to be equal now.
    held -- tables of the target with rows that the copy would replace.
    code -- code of the source that missing tables would run on the target.
    lacks -- objects that missing tables need, and that the target lacks.
    same -- both connection strings lead to one database.
    """

    source: DatabaseFacts
    target: DatabaseFacts | None = None
    names: tuple[str, str] = ("source", "target")
    tables: Collection[str] = ()
    excluded: Collection[str] = ()
    chosen: frozenset[TableName] | None = None
    whole: bool = False
    whole_rows: bool = False
    compared: bool = True
    held: Sequence[str] = ()
    code: Sequence[str] = ()
    lacks: Sequence[Lack] = ()
    same: bool = False
    program: ProgramFacts = ProgramFacts()
    limits: DoctorLimits = DoctorLimits()

    @property
    def sides(self) -> list[tuple[str, DatabaseFacts]]:
        """Name and facts of each database."""
        both = zip(self.names, (self.source, self.target), strict=True)
        return [(name, facts) for name, facts in both if facts is not None]

    def wants(self, table: Table) -> bool:
        """Whether a table is part of the plan."""
        return self.wants_name(table.name)

    def wants_name(self, name: TableName) -> bool:
        """The same for a relation of another kind."""
        if self.chosen is not None:
            return name in self.chosen
        if self.excluded and matches(name, list(self.excluded)):
            return False
        return not self.tables or matches(name, list(self.tables))

    @property
    def wanted(self) -> list[Table]:
        """Tables of the source that are part of the plan."""
        return [table for table in self.source.tables if self.wants(table)]


def found(
    severity: Severity,
    kind: str,
    what: str,
    why: str,
    do: str = "",
    *,
    side: str = "",
    object: str = "",
    sql: Sequence[str] = (),
    admin_sql: Sequence[str] = (),
    admin: bool = False,
    command: str = "",
) -> Finding:
    """A finding of a check; without ``do`` it is made from the statements or the command.

    sql, admin_sql -- statements that fix it; the latter need an administrator.
    admin -- what fixes it without statements needs one.
    """
    if not do:
        where = f"in the {side} database" if side else ""
        who = "as an administrator" if admin_sql else ""
        before = " ".join(filter(None, [who, where]))
        do = command or (f"{before}: " if before else "") + "; ".join((*sql, *admin_sql))
    return Finding(
        severity,
        kind,
        what,
        why,
        do,
        side=side,
        object=object,
        sql=(*sql, *admin_sql),
        admin=admin or bool(admin_sql),
        command=command,
    )


critical = functools.partial(found, Severity.CRITICAL)
warning = functools.partial(found, Severity.WARNING)
notice = functools.partial(found, Severity.OK)


def by_execute(statement: str) -> str:
    """The command that changes a replicated table on all nodes, in order with its rows."""
    return f"londiste execute --sql {shlex.quote(statement)}"
