"""``londiste lake``: copies of tables in Parquet files; each command imported when it is used."""

from __future__ import annotations

import click

from londiste.cli.lazy import Entry, LazyGroup

KEEPING = "Keeping"
LOOKING = "Looking and checking"

COMMANDS: dict[str, Entry] = {
    "run": Entry("run", "Keep the tables until stopped.", KEEPING),
    "once": Entry("run", "Take what is there now, then end.", KEEPING),
    "resync": Entry("resync", "Read the rows of tables anew.", KEEPING),
    "compact": Entry("compact", "Join the small files of tables.", KEEPING),
    "vacuum": Entry("vacuum", "Forget old versions and their files.", KEEPING),
    "status": Entry("status", "Show where the tables stand.", LOOKING),
    "files": Entry("files", "List the files that a table is made of.", LOOKING),
    "compare": Entry("compare", "Compare tables with those of the database.", LOOKING),
}


@click.group(cls=LazyGroup, package="londiste.cli.lake", table=COMMANDS)
def lake() -> None:
    """Copies of tables in Parquet files: all changes, the state, or its history."""
