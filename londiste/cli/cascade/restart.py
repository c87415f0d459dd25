"""Commands that start workers with their connection strings again, after a node has a new one.

The workers of ``londiste replicate`` and of a migration get the strings that the command was given;
other workers read them from the cascade.
"""

from __future__ import annotations

import shlex

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.db.connection import Connection
from londiste.migrate.databases import NEW, OLD, MigrateSettings
from londiste.replicate.asked import Asked
from londiste.replicate.databases import worker_name

_OF_REPLICATE, _OF_MIGRATE = worker_name(""), "migrate_"


def restart(conn: Connection, queue: str, location: str) -> str:
    """The command for the workers that a new location of a node concerns; '' for none.

    conn -- to the node.  The command has no passwords, and the tables are not known.
    """
    node = nodes.get_node_info(conn, queue)
    places = {one.name: one.location for one in nodes.get_queue_locations(conn, queue)}
    places[node.name] = location
    if node.worker == f"{_OF_MIGRATE}{node.name}" and places.keys() == {OLD, NEW}:
        words = ["londiste", "migrate", "run", "--from", places[OLD], "--to", places[NEW]]
        if queue != MigrateSettings.model_fields["queue_name"].default:
            words[1:1] = ["--set", f"queue_name={queue}"]
        return shlex.join(words)
    if node.type is NodeType.LEAF:
        ours = node.worker.startswith(_OF_REPLICATE)
        return Asked(node.provider_location, (location,), queue).command() if ours else ""
    below = tuple(
        places[one.name]
        for one in nodes.get_subscriber_info(conn, queue)
        if one.worker.startswith(_OF_REPLICATE) and one.name in places
    )
    return Asked(location, below, queue).command() if below else ""
