"""``queue status``: shows queues, consumers and problems."""

from __future__ import annotations

import dataclasses
import threading
from typing import TypedDict

import click

from londiste.cli import options, output
from londiste.cli.errors import phrase, report
from londiste.cli.queue.common import opened
from londiste.db.connection import Connection
from londiste.errors import BadOption, LondisteError
from londiste.monitor.catalog import ShownFinding, shown
from londiste.monitor.queues import collect
from londiste.monitor.queues import rules as judge
from londiste.monitor.queues.model import (
    ConsumerFacts,
    Finding,
    Limits,
    MonitorFacts,
    QueueFacts,
    Speed,
)
from londiste.monitor.queues.words import size, span

#: Exit code of ``--check`` when the state is unknown.
EXIT_UNKNOWN = 3


class ConsumerSpeed(TypedDict):
    """Events that a consumer has read."""

    queue: str
    consumer: str
    events_per_sec: float


class Measured(TypedDict):
    """With `--seconds`: events per second.

    seconds -- of the measurement.
    written -- by queue.
    read -- by consumer.
    """

    seconds: float
    written: dict[str, float]
    read: list[ConsumerSpeed]


class Document(TypedDict):
    """The queues of a database.

    ticker_sessions -- connected tickers.
    not_seen -- facts that the user may not see.
    """

    database: str
    severity: str
    findings: list[ShownFinding]
    queues: list[QueueFacts]
    consumers: list[ConsumerFacts]
    ticker_sessions: int
    not_seen: list[str]
    speed: Measured | None


@click.command()
@click.argument("name", required=False, metavar="[QUEUE]")
@click.option(
    "--check",
    is_flag=True,
    help="Exit code for monitoring: 0 ok, 1 warning, 2 critical, 3 unknown.",
)
@click.option(
    "--seconds", type=float, metavar="SECONDS", help="Measure throughput over this many seconds."
)
@click.option(
    "--max-lag", type=float, metavar="SECONDS", help="Maximum lag of a consumer (default 600)."
)
@click.option(
    "--max-idle",
    type=float,
    metavar="SECONDS",
    help="Maximum time without activity of a consumer (default 3600).",
)
@click.option(
    "--max-transaction",
    type=float,
    metavar="SECONDS",
    help="Maximum duration of a transaction (default 900).",
)
@options.database
@options.json_output(Document)
@options.pass_context
def status(
    ctx: options.Context,
    name: str | None,
    check: bool,
    seconds: float | None,
    max_lag: float | None,
    max_idle: float | None,
    max_transaction: float | None,
    db: str | None,
    as_json: bool,
) -> int:
    """Show queues, consumers and problems: severity, cause and fix.

    Needs no rights except to connect; prints what this user cannot see.
    """
    if any(n is not None and n <= 0 for n in (seconds, max_lag, max_idle, max_transaction)):
        raise BadOption(
            "--seconds, --max-lag, --max-idle and --max-transaction must be above 0",
            hint="omit the option for its default",
        )
    usual = Limits()
    limits = dataclasses.replace(
        usual,
        lag=max_lag or usual.lag,
        inactive=max_idle or usual.inactive,
        transaction=max_transaction or usual.transaction,
    )
    try:
        with opened(ctx, db) as conn:
            facts, speed = _look(conn, name, seconds)
    except LondisteError as error:
        if not check:
            raise
        return report(error, EXIT_UNKNOWN)
    found = judge.findings(facts, limits, speed)
    if as_json:
        output.as_json(_document(facts, found, speed))
    else:
        _print(facts, found, speed, check=check)
    return int(judge.worst(found)) if check else 0


def _look(
    conn: Connection, name: str | None, seconds: float | None
) -> tuple[MonitorFacts, Speed | None]:
    facts = collect.collect(conn, name)
    if seconds is None:
        return facts, None
    threading.Event().wait(seconds)
    later = collect.collect(conn, name)
    return later, judge.compare(facts, later, seconds)


def _print(facts: MonitorFacts, found: list[Finding], speed: Speed | None, *, check: bool) -> None:
    if check:
        # One line that a pager can show.
        first = f": {phrase(found[0].what)}" if found else ""
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        click.echo(f"{judge.worst(found).word}{first}{more}")
    else:
        output.table(
            ["queue", "tick", "tick_age", "new_events", "events_per_sec", "bytes", "switch_age"],
            [
                [
                    q.name,
                    q.tick,
                    None if q.tick_age is None else span(q.tick_age),
                    q.new_events,
                    None if q.events_per_sec is None else round(q.events_per_sec, 1),
                    size(q.bytes),
                    span(q.switch_age),
                ]
                for q in facts.queues
            ],
        )
        if facts.consumers:
            click.echo("")
            output.table(
                [
                    "queue",
                    "consumer",
                    "lag",
                    "last_seen",
                    "pending",
                    "batch",
                    "dead_letters",
                    "retries",
                ],
                [
                    [
                        c.queue,
                        c.name,
                        None if c.lag is None else span(c.lag),
                        span(c.last_seen),
                        c.pending,
                        c.batch,
                        c.dead_letters,
                        c.retries,
                    ]
                    for c in facts.consumers
                ],
            )
        if speed is not None:
            click.echo("")
            output.table(
                ["queue", "consumer", "events_per_sec"],
                [
                    *([q, "(written)", round(n, 1)] for q, n in speed.produced.items()),
                    *([q, c, round(n, 1)] for (q, c), n in speed.consumed.items()),
                ],
            )
    for one in found:
        click.echo("")
        click.echo(f"{one.severity.word}: {phrase(one.what)}")
        click.echo(f"  why: {phrase(one.why)}")
        click.echo(f"  do:  {phrase(one.do)}")
    for text in facts.unseen:
        output.warning(f"not visible to this user: {text}")
    if not found and not check:
        output.message("no problems found")


def _document(facts: MonitorFacts, found: list[Finding], speed: Speed | None) -> Document:
    measured = None
    if speed is not None:
        read = [
            ConsumerSpeed(queue=queue, consumer=consumer, events_per_sec=number)
            for (queue, consumer), number in speed.consumed.items()
        ]
        measured = Measured(seconds=speed.seconds, written=speed.produced, read=read)
    return Document(
        database=facts.database,
        severity=judge.worst(found).word,
        findings=shown(found),
        queues=list(facts.queues),
        consumers=list(facts.consumers),
        ticker_sessions=facts.ticker_sessions,
        not_seen=list(facts.unseen),
        speed=measured,
    )
