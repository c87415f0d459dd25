"""Commands that look at a move and change nothing."""

from __future__ import annotations

import click

from londiste.cli import options, output
from londiste.cli.errors import EXIT_DIFFERENT
from londiste.cli.inspect.compare import announce, row
from londiste.cli.migrate import common
from londiste.compare import compare as run
from londiste.compare import context as parties
from londiste.errors import StateError
from londiste.migrate import collect, daemons, drift, phase, schema_copy, setup
from londiste.migrate.checks import findings
from londiste.migrate.databases import NEW, OLD, Pair
from londiste.monitor.queues.model import Finding, Severity
from londiste.monitor.queues.rules import worst
from londiste.orchestration.connections import Connections


def examine(
    sites: Connections, pair: Pair, asked: common.Asked
) -> tuple[list[Finding], schema_copy.MakeStructure]:
    """What speaks against the move, and how its structure would be made."""
    setup.require_two(sites, pair)
    begun = setup.node(sites, pair.new, pair.queue) is not None
    conn = sites.at(pair.new.dsn)
    old = collect.collect(sites.at(pair.old.dsn), pair.old.dsn)
    new = collect.collect(conn, pair.new.dsn)
    chosen, dumper = schema_copy.choose(asked.way, old, new, begun=begun, program=asked.pg_dump)
    held = [] if begun else schema_copy.rows_in_the_way(conn, old)
    found = findings(old, new, chosen, held=held, begun=begun)
    roles = bool((old.named_roles - new.roles) - {old.user}) or not new.superuser
    return found, schema_copy.MakeStructure(pair, chosen, dumper, roles, output.warning)


def rows(found: list[Finding]) -> list[dict[str, str]]:
    """Findings for ``--json``."""
    return [
        {
            "severity": one.severity.word,
            "kind": one.kind,
            "what": one.what,
            "why": one.why,
            "do": one.do,
        }
        for one in found
    ]


def say(found: list[Finding]) -> None:
    """Findings for people."""
    for one in found:
        click.echo(f"{one.severity.word}: {one.what}\n  why: {one.why}\n  do:  {one.do}")


@click.command()
@options.pass_context
@common.databases
@common.SCHEMA
@common.PG_DUMP
@options.json_output
def check(
    context: options.Context,
    source: str | None,
    target: str | None,
    way: str,
    pg_dump: str | None,
    as_json: bool,
) -> int:
    """Say what speaks against a move, and what will be left out.

    Both databases are asked; nothing is changed. Each finding says what to do about it. The exit
    code is 0, 1 (warnings) or 2: start refuses to begin.
    """
    pair = common.the_pair(context, source, target)
    with pair.sites() as sites:
        found, made = examine(sites, pair, common.Asked(way, pg_dump))
    how = {
        schema_copy.SchemaMethod.PG_DUMP: "made by pg_dump"
        + (f" {made.dumper.version} ({made.dumper.program})" if made.dumper else "")
        + (", without owners and grants" if made.roles else ""),
        schema_copy.SchemaMethod.CREATE: "made by londiste",
        schema_copy.SchemaMethod.EXISTING: "expected to be there",
    }[made.way]
    if as_json:
        output.as_json({"schema": made.way.value, "findings": rows(found)})
    else:
        say(found)
        output.message(f"the structure of the new database is {how}")
        output.message(f"{len(found)} findings")
    return int(worst(found))


@click.command()
@options.pass_context
@common.databases
@options.json_output
def status(context: options.Context, source: str | None, target: str | None, as_json: bool) -> None:
    """Show how far the move is, and what to do next."""
    pair = common.the_pair(context, source, target)
    with pair.sites() as sites:
        found = phase.look(sites, pair)
    if as_json:
        output.as_json(found)
        return
    nobody = "nobody, for now" if found.phase is phase.Phase.SWITCHING else None
    lag = None if found.lag is None else f"{found.lag:.1f} s"
    output.table(
        ["what", "value"],
        [
            ["phase", found.phase.value],
            ["takes writes", found.root or nobody],
            ["tables in step", f"{found.in_step} of {found.tables}"],
            ["lag of the other", lag],
            ["running", ", ".join(found.running) or None],
            ["not running", ", ".join(found.missing) or None],
            *(["error", text] for text in found.errors),
            ["next", found.next],
        ],
    )


@click.command()
@options.pass_context
@common.databases
@click.option("--timeout", default=60.0, show_default=True, help="Seconds to wait for the worker.")
@options.json_output
def verify(
    context: options.Context,
    source: str | None,
    target: str | None,
    timeout: float,
    as_json: bool,
) -> int:
    """Compare rows, structure and sequences of both databases.

    Rows at one tick, while writes go on, without a lock on any table. The exit code is 3 when
    rows differ, when one side lacks a column, key, index, constraint, trigger or sequence of the
    other, or when a sequence is behind.
    """
    return EXIT_DIFFERENT if compare(context, source, target, timeout, as_json) else 0


def compare(
    context: options.Context,
    source: str | None,
    target: str | None,
    timeout: float,
    as_json: bool = False,
) -> list[str]:
    """Compares both databases and prints the result; what differs, in words."""
    pair = common.the_pair(context, source, target)
    with pair.sites() as sites:
        seen = phase.look(sites, pair)
        if seen.phase not in (phase.Phase.IN_STEP, phase.Phase.SWITCHED):
            raise StateError(
                f"the move stands at: {seen.phase.value}; there is nothing to compare yet",
                detail=f"{seen.in_step} of {seen.tables} tables are in step",
                hint=seen.next,
            )
        below = pair.side(OLD if seen.root == NEW else NEW)
        conn = {side.name: sites.at(side.dsn) for side in (pair.old, pair.new)}
        above = pair.other(below).name
        found = drift.differences(
            drift.look(conn[above]), drift.look(conn[below.name]), (above, below.name)
        )
    if not as_json:
        say(found)
    with daemons.at_work(pair, verbose=common.verbose(context)):
        result = run.compare_tables(
            pair.worker_settings(below),
            parties.Asked(timeout=timeout),
            say=output.message,
            done=announce,
        )
        with pair.sites() as sites:
            late = drift.wait_for_sequences(
                sites.at(pair.other(below).dsn),
                sites.at(below.dsn),
                pair.queue,
                timeout=timeout,
                name=below.name,
            )
    stopping = [one.what for one in (*found, *late) if one.severity is Severity.CRITICAL]
    if as_json:
        output.as_json(
            {
                "equal": result.equal and not stopping,
                "tick": result.tick_id,
                "tables": [row(one) for one in result.tables],
                "findings": rows([*found, *late]),
            }
        )
    else:
        say(late)
        output.table(
            ["table", "equal", f"rows on {seen.root}", f"rows on {below.name}"],
            [[r.table, r.equal, r.rows_root, r.rows_node] for r in result.tables],
        )
    different = [r.table for r in result.tables if not r.equal]
    if different:
        output.message(f"{len(different)} tables differ; look for who writes on {below.name}")
    return [*different, *stopping]
