"""Checks of triggers, rules and other code that runs for replicated rows, too."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.db.names import TableName, argument, quote
from londiste.monitor.doctor.facts import Table
from londiste.monitor.doctor.situation import Situation, critical, warning
from londiste.monitor.nodes.doubts import doubt
from londiste.monitor.queues.model import Finding
from londiste.replication.replication_role import WHY
from londiste.wording import shortened

CODE = "code"
FINDINGS = {
    CODE: "code of the source that tables would run on the target",
    "always": "trigger that fires for replicated rows",
    "rule": "rewrite rule that applies to replicated rows",
    "replication-role": "sessions whose changes are not captured",
    "second-queue": "rows of another queue that are not captured",
    "native-subscription": "rows of a subscription of PostgreSQL that are not captured",
}


def check(pair: Situation) -> Iterator[Finding]:
    """Findings about captures that stay silent, code of missing tables, triggers and rules."""
    yield from _silenced(pair)
    yield from _silent(pair)
    yield from _subscribed(pair)
    if pair.code:
        yield _code(pair)
    yield from _always(pair)


def _silenced(pair: Situation) -> Iterator[Finding]:
    """Findings about sessions that no capture sees; the target captures only when all moves."""
    for side, facts in pair.sides if pair.whole else pair.sides[:1]:
        for one in facts.more.silenced:
            yield critical(
                "replication-role",
                f"{one}, in the {side} database",
                WHY,
                side=side,
                object=one.role or one.database or facts.more.database,
                admin_sql=[one.statement],
            )


def _silent(pair: Situation) -> Iterator[Finding]:
    """Findings about captures that do not fire for rows which replication writes."""
    for side, facts in pair.sides if pair.whole else pair.sides[:1]:
        for queue, kind, table, brought, branch in facts.more.silent:
            _, what, why, do = doubt(kind, table, brought, queue, branch, root=not branch)
            yield critical(
                kind,
                f"{what} for queue {queue}, in the {side} database",
                why,
                f"with the settings of queue {queue} there: {do}",
                side=side,
                object=table,
            )


def _subscribed(pair: Situation) -> Iterator[Finding]:
    """Findings about tables that will be captured, and into which PostgreSQL replicates."""
    facts = pair.source
    for table in pair.wanted:
        subscription = facts.more.subscribed.get(table.name)
        if subscription is not None and not facts.replicates(table):
            name = argument(table.name)
            yield warning(
                "native-subscription",
                f"table {table.name} gets rows by subscription {subscription} of PostgreSQL, in the"
                f" {pair.names[0]} database",
                "only a trigger by row that is ENABLE ALWAYS fires for them: subscribers lack these"
                " rows",
                f"after it was added, on the root: londiste triggers --always {name}; then on the"
                f" nodes below: londiste resync {name}",
                side=pair.names[0],
                object=str(table.name),
            )


def _code(pair: Situation) -> Finding:
    """One finding for the code of all tables that are created on the target."""
    here, there = pair.names
    return critical(
        CODE,
        f"missing tables contain code of the {here} that would run in the {there} database:"
        f" {shortened(pair.code)}",
        "the worker runs it with its rights when it writes rows; without consent no table is"
        " created",
        f"check that code, then run londiste replicate with --allow-code (in the file of a cascade:"
        f" allow_code = true in [tables]); or create the tables in the {there} database yourself",
        side=there,
    )


def _always(pair: Situation) -> Iterator[Finding]:
    """Findings about ENABLE ALWAYS and ENABLE REPLICA, on both sides.

    A trigger of the source alone is created on the target with its table.
    """
    theirs = {table.name: table for table in pair.target.tables} if pair.target else {}
    mine = {table.name: table for table in pair.wanted}
    extra = {} if not pair.whole else {n: t for n, t in theirs.items() if n not in mine}
    for name, table in {**mine, **extra}.items():
        other = theirs.get(name)
        present = {pair.names[0]: mine.get(name), pair.names[1]: other}
        if other is not None and not pair.whole:
            # The table is there: what fires on it is all that counts.
            del present[pair.names[0]]
        yield from _table(table.name, {k: t for k, t in present.items() if t is not None})


def _table(name: TableName, sides: dict[str, Table]) -> Iterator[Finding]:
    for kind, word, does in (
        ("always", "trigger", "fires for replicated rows, too"),
        ("rule", "rule", "applies to replicated rows, too"),
    ):
        names = {
            side: table.always if kind == "always" else table.rules for side, table in sides.items()
        }
        for one in sorted({n for found_here in names.values() for n in found_here}):
            having = [side for side, there in names.items() if one in there]
            statement = f"alter table {name.quoted} enable {word} {quote(one)}"
            yield warning(
                kind,
                f"{word} {one} of table {name} {does}",
                "on the subscriber it repeats effects that are replicated already, or fails",
                f"in the {' and the '.join(having)} database, until the end of the replication:"
                f" {statement} (or disable, if it was ENABLE REPLICA)",
                side=having[-1],
                object=str(name),
                sql=[statement],
            )
