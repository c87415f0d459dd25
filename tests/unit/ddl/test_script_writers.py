"""Which tables a script keeps writers out of."""

from __future__ import annotations

import pytest

from londiste.db.names import TableName
from londiste.replication.ddl.split import split
from londiste.replication.ddl.writers import Used, named, unlocked

TABLES = {1: TableName("public", "t"), 2: TableName("app", "Log"), 3: TableName("app", "t")}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("delete from T where id = 1", {1, 3}),
        ('insert into "Log" select 1', {2}),
        ("insert into log select 't'", set()),
        ('update x set y = (select count(*) from app."Log")', {2}),
    ],
)
def test_words_name_tables_in_any_schema(text: str, found: set[int]) -> None:
    (statement,) = split(text)
    assert named(statement, TABLES) == found


@pytest.mark.parametrize(
    ("used", "wrote", "found"),
    [
        ([Used(1, False, False), Used(2, False, True)], False, set()),
        ([Used(1, False, False), Used(2, False, True)], True, {1}),
        # It has found no row, where another node may find one.
        ([Used(1, False, False), Used(2, True, False)], False, {1, 2}),
        ([Used(1, False, False), Used(2, True, True)], False, {1}),
    ],
)
def test_a_script_that_could_write_locks_all_that_it_uses(
    used: list[Used], wrote: bool, found: set[int]
) -> None:
    assert unlocked(used, wrote=wrote) == found
