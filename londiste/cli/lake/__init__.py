"""``londiste lake``: copies of tables in Delta tables; each command imported when it is used."""

from __future__ import annotations

import click

from londiste.cli.lazy import Entry, LazyGroup

KEEPING = "Keeping"
LOOKING = "Inspect and verify"

COMMANDS: dict[str, Entry] = {
    "run": Entry("run", "Keep the tables up to date until stopped.", KEEPING),
    "once": Entry("run", "Apply what is in the queue now, then exit.", KEEPING),
    "resync": Entry("resync", "Read the rows of tables again.", KEEPING),
    "compact": Entry("compact", "Join the small files of tables.", KEEPING),
    "vacuum": Entry("vacuum", "Delete files of old versions.", KEEPING),
    "convert": Entry("convert", "Convert directories of earlier releases.", KEEPING),
    "status": Entry("status", "Show position, lag and size of the tables.", LOOKING),
    "files": Entry("files", "List the files of a table.", LOOKING),
    "compare": Entry("compare", "Compare tables with the database.", LOOKING),
}


@click.group(cls=LazyGroup, package="londiste.cli.lake", table=COMMANDS)
def lake() -> None:
    """Maintain copies of tables in Delta tables: all changes, the state, or its history."""
