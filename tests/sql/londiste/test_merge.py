"""Roles of copies that fill one table from several queues: the check table, row by row."""

from __future__ import annotations

import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_leaf

L, R, C = "lead", "wait-replay", "wait-copy"


@pytest.mark.parametrize(
    ("parts", "roles"),
    [
        ("in-copy in-copy in-copy", (L, C, C)),
        ("!in-copy in-copy in-copy", (L, R, R)),
        ("!in-copy catching-up catching-up", (L, R, R)),
        ("!catching-up catching-up in-copy", (R, R, R)),
        ("!catching-up catching-up catching-up", (None, R, R)),
        ("catching-up catching-up catching-up", (None, None, None)),
        ("in-copy catching-up in-copy", (R, None, R)),
        ("in-copy ok ok", (None, None, None)),
        ("in-copy", (None,)),
        ("catching-up", (None,)),
    ],
)
def test_every_part_has_its_role(
    pgq_db: Database, parts: str, roles: tuple[str | None, ...]
) -> None:
    for number, part in enumerate(parts.split()):
        make_leaf(pgq_db, f"q{number}")
        pgq_db.execute(
            "insert into londiste.table_info"
            " (queue_name, table_name, local, merge_state, dropped_ddl)"
            " values (%s, 'public.t', true, %s, %s)",
            f"q{number}",
            part.lstrip("!"),
            "select 1" if part.startswith("!") else None,
        )
    found = [
        pgq_db.value("select copy_role from londiste.get_table_list(%s)", f"q{number}")
        for number in range(len(roles))
    ]
    assert tuple(found) == roles


def test_the_position_counts_lower_parts_that_copy(pgq_db: Database) -> None:
    for number in range(3):
        make_leaf(pgq_db, f"q{number}")
        pgq_db.execute(
            "insert into londiste.table_info (queue_name, table_name, local, merge_state)"
            " values (%s, 'public.t', true, 'in-copy')",
            f"q{number}",
        )
    found = [
        pgq_db.value("select copy_pos from londiste.get_table_list(%s)", f"q{number}")
        for number in range(3)
    ]
    assert found == [0, 1, 2]
