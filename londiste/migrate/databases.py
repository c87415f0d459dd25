"""The two databases of a migration, and their connection strings.

Locations that the nodes store contain no password.  So this process keeps both connection strings
and uses them for every connection to a node.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from londiste.cascade.commands.endpoint import Endpoint, connections, endpoint, worker_settings
from londiste.dsn import with_environment
from londiste.errors import BadOption
from londiste.orchestration.connections import Connections
from londiste.settings import WorkerSettings

#: Names of the nodes.
OLD, NEW = "old", "new"


class MigrateSettings(WorkerSettings):
    """Settings of a migration and of its workers."""

    sections: ClassVar[tuple[str, ...]] = ("migrate", "londiste")

    db: str = Field("", description="Not used: from_db and to_db name the databases.")
    queue_name: str = Field("migrate", description="Name of the queue that the migration creates.")
    # Nothing but this package is needed for it.
    engine: Literal["spark", "local"] = Field(
        "local",
        description="Engine for copies, compare and large batches: spark or local.",
    )
    from_db: str = Field("", description="Connection string of the old database (required).")
    to_db: str = Field("", description="Connection string of the new database (required).")


#: One of the two databases.
Side = Endpoint


@dataclass(frozen=True)
class Pair:
    """The old and the new database, and the settings of their daemons."""

    settings: MigrateSettings
    old: Side
    new: Side

    @property
    def queue(self) -> str:
        """Name of the queue."""
        return self.settings.queue_name

    @property
    def answer_seconds(self) -> float:
        """Seconds to wait for a response."""
        return self.settings.answer_seconds

    def side(self, name: str) -> Side:
        """The side with this node name."""
        return self.old if name == OLD else self.new

    def other(self, side: Side) -> Side:
        """The other side than ``side``."""
        return self.new if side.name == OLD else self.old

    def worker_settings(self, side: Side) -> WorkerSettings:
        """The settings of a side's worker, and of compare."""
        return worker_settings(self.settings, self.queue, side, self.other(side))

    def sites(self) -> Connections:
        """Connections for a command, which reach both by the given connection strings.

        Its DDL in a database without writes would fail where an event trigger writes a row.
        """
        return connections(
            "londiste migrate", self.settings, (self.old, self.new), event_triggers=False
        )


def pair(settings: MigrateSettings) -> Pair:
    """The databases of the settings.  Raises BadOption."""
    for key, option in (("from_db", "--from"), ("to_db", "--to")):
        if not getattr(settings, key):
            word = "old" if key == "from_db" else "new"
            raise BadOption(
                f"the {word} database is not given",
                hint=f"{option} 'host=… dbname=… user=…', LONDISTE_{key.upper()},"
                f" or {key} in the section [migrate] of a file (-c FILE)",
            )
    return Pair(settings, _side(OLD, settings.from_db), _side(NEW, settings.to_db))


def _side(name: str, dsn: str) -> Side:
    return endpoint(name, with_environment(dsn, os.environ), f"migrate_{name}")
