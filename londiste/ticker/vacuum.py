"""Vacuum of queue tables without autovacuum."""

from __future__ import annotations

import logging

import psycopg
from psycopg import sql

from londiste.db.connection import Connection
from londiste.db.queries import query
from londiste.errors import from_database

log = logging.getLogger(__name__)

#: The only names of maintenance operations that are statements and not functions.
STATEMENTS: dict[str, sql.SQL] = {
    "vacuum": sql.SQL("vacuum {}"),
    "vacuum analyze": sql.SQL("vacuum analyze {}"),
}


def run_once(conn: Connection, operation: str, table: str) -> None:
    """Runs one of STATEMENTS on a table that is named as in SQL; the connection is autocommit.

    A dropped table needs none.
    """
    try:
        found = conn.execute(query("relation_name"), {"relation": table}).fetchone()
        if found is None:
            log.debug("table %s does not exist: no vacuum", table)
            return
        conn.execute(STATEMENTS[operation].format(sql.Identifier(*found)))
    except psycopg.Error as error:
        raise from_database(error, where=conn.info.dbname) from error
