"""``londiste demo``: replicates between two temporary servers."""

from __future__ import annotations

import click

from londiste.cli import options, output
from londiste.cli.errors import EXIT_DIFFERENT
from londiste.demo import run


@click.command()
@options.pass_context
@click.option(
    "--engine",
    type=click.Choice(["spark", "local"]),
    default="spark",
    show_default=True,
    help="Engine for copies and compare.",
)
@click.option(
    "--keep", is_flag=True, help="Keep the servers running and print their connection strings."
)
@click.option(
    "--web",
    is_flag=True,
    help="Show the demo in a browser, and continue until Ctrl-C; print the address.",
)
@options.json_output(run.Summary)
def demo(context: options.Context, engine: str, keep: bool, web: bool, as_json: bool) -> int:
    """Run a demo: two temporary servers replicating.

    Starts a PostgreSQL 16 as root and an 18 as leaf from the binaries of the extra `embedded`.
    Writes to the root continuously, adds tables, kills the worker, and compares at the end. The
    exit code is 0 only if all tables are equal. With --web a console shows it live; needs the extra
    `web`.
    """
    from rich.console import Console

    console = Console(stderr=True, quiet=context.quiet)
    with run.demo(engine=engine, keep=keep, console=console, web=web) as show:
        summary = show.run()
        if as_json:
            output.as_json(summary)
        else:
            output.table(
                list(vars(summary)),
                [[*vars(summary).values()]],
            )
        if keep:
            output.message("the servers keep running:")
            for line in show.connection_help().splitlines():
                output.message(line)
        if web:
            show.show()
    return 0 if summary.equal else EXIT_DIFFERENT
