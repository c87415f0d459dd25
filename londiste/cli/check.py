"""``londiste check``: whether the tables of a node are captured as they should be."""

from __future__ import annotations

import click

from londiste.cli import options, output
from londiste.db.connection import session
from londiste.monitor import capture_facts, captures
from londiste.monitor.queues import worst
from londiste.settings import NodeSettings


@click.command()
@options.pass_context
@click.option("--sizes", is_flag=True, help="Measure the largest values: reads every table once.")
@options.json_output
def check(context: options.Context, sizes: bool, as_json: bool) -> int:
    """Check how the tables of this node are captured: how bad, what, why, and what to do.

    Captures that are lost or do not fit their tables, tables without a key or with one whose text
    does not tell a row, values near the limits of size. The exit code is 0, 1 (warnings) or 2.
    """
    settings = context.settings(NodeSettings)
    with session(settings.db, name="londiste check", autocommit=True) as conn:
        facts = capture_facts.collect(conn, settings.queue_name, sizes=sizes)
    found = captures.findings(facts, settings.queue_name)
    rows = [
        {
            "severity": one.severity.word,
            "kind": one.kind,
            "what": one.what,
            "why": one.why,
            "do": one.do,
        }
        for one in found
    ]
    if as_json:
        output.as_json({"tables": len(facts), "sizes": sizes, "findings": rows})
    else:
        for one in found:
            click.echo(f"{one.severity.word}: {one.what}\n  why: {one.why}\n  do:  {one.do}")
        output.message(f"{len(facts)} tables checked, {len(found)} findings")
    return int(worst(found))
