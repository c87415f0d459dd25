"""All planted defects: one at least per promise.

A defect changes the program (``plant``, in every process of a life) or its SQL (``change``, in
every database before the first step).  A life that does not notice it has not been a proof.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg

# They register themselves.
from tests.nemesis.defects import in_migrations as in_migrations
from tests.nemesis.defects import in_program as in_program
from tests.nemesis.defects import in_sql as in_sql
from tests.nemesis.defects.planting import DEFECTS as DEFECTS


def plant(name: str) -> None:
    """In this process."""
    DEFECTS[name].run()


def change(name: str, conn: psycopg.Connection[Any]) -> None:
    """In this database.  AssertionError when the text to be replaced is no longer there."""
    for function, old, new in DEFECTS[name].more.sql:
        row = conn.execute(
            "select pg_get_functiondef(oid) from pg_proc"
            " where oid = coalesce(to_regproc(%s), to_regprocedure(%s))",
            [function, function],
        ).fetchone()
        assert row is not None, f"no function {function}"
        changed, count = re.subn(old, new, row[0])
        assert count, f"{function} has no {old}"
        conn.execute(changed.encode())
