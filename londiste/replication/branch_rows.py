"""Whether the rows of a table are those that its events continue, on a branch of a cascade.

A branch forwards the events of all tables, also of those that it does not keep, or keeps otherwise.
"""

from __future__ import annotations

from londiste.cascade import sqlapi as nodes
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.errors import BadOption, InstallError, StateError, UnknownQueue
from londiste.handlers import table_rules
from londiste.replication import sqlapi as tables


def require(conn: Connection, queue: str, table: TableName) -> None:
    """Raises StateError where rows of the table and later events would not fit together."""
    try:
        if nodes.is_root_node(conn, queue):
            return
    except (InstallError, UnknownQueue):
        # The queue is no cascade's.
        return
    known = next((t for t in tables.get_table_list(conn, queue) if t.name == table), None)
    if known is None or not known.local:
        why = "it is not replicated there"
    elif known.state != "ok":
        raise StateError(
            f"table {table} of node {nodes.get_node_info(conn, queue).name} is not in sync",
            detail="rows that its copy still brings are no events",
            hint="with the settings of that node: londiste wait-sync; then start again",
        )
    else:
        try:
            why = table_rules.unlike(known.holds)
        except BadOption as error:
            why = error.message
    if why:
        raise StateError(
            f"table {table} of node {nodes.get_node_info(conn, queue).name} has other rows than its"
            f" events: {why}",
            detail="the node forwards all events, which would not match the rows",
            hint="read the table on the root, or on a branch that keeps it",
        )
