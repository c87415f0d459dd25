"""``londiste demo``."""

from __future__ import annotations

import click

from londiste.cli import options, output
from londiste.cli.errors import EXIT_DIFFERENT


@click.command()
@options.pass_context
@click.option("--engine", type=click.Choice(["spark", "local"]), default="spark", show_default=True)
@click.option("--keep", is_flag=True, help="Leave the servers running and say how to connect.")
@options.json_output
def demo(context: options.Context, engine: str, keep: bool, as_json: bool) -> int:
    """Show two databases coming into step, servers included.

    Starts a PostgreSQL 16 as root and an 18 as leaf from the binaries that were installed with
    the extra `embedded`, writes to the root all the time, adds tables, kills the worker, and
    compares at the end. The exit code is 0 only if every table is equal.
    """
    from rich.console import Console

    from londiste.demo import run

    console = Console(stderr=True, quiet=context.quiet)
    with run.demo(engine=engine, keep=keep, console=console) as show:
        summary = show.run()
        if as_json:
            output.as_json(summary.as_dict())
        else:
            output.table(
                ["equal", "tables", "rows", "events", "seconds"],
                [[*summary.as_dict().values()]],
            )
        if keep:
            output.message("the servers go on running:")
            for line in show.connection_help().splitlines():
                output.message(line)
    return 0 if summary.equal else EXIT_DIFFERENT
