"""Functions and tables have the signatures of Londiste 3's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database, create_database
from tests.fixtures.original import EXTENSIONS, original_database

FUNCTIONS = """
    select format('%s.%s', n.nspname, p.proname), pg_get_function_arguments(p.oid),
           pg_get_function_result(p.oid)
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname in ('pgq', 'pgq_node', 'londiste')
"""
COLUMNS = """
    select format('%s.%s.%s', n.nspname, c.relname, a.attname), format_type(a.atttypid, a.atttypmod)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
        join pg_attribute a on a.attrelid = c.oid
    where n.nspname in ('pgq', 'pgq_node', 'londiste') and a.attnum > 0 and c.relkind in ('r', 'v')
"""


@pytest.fixture(scope="module")
def both(original_server: Cluster) -> Iterator[tuple[Database, Database]]:
    """A database with the original, and one with ours."""
    theirs, ours = original_database(original_server), create_database(original_server, pgq=True)
    yield theirs, ours
    theirs.drop()
    ours.drop()


def test_every_function_is_here_with_its_names_defaults_and_columns(
    both: tuple[Database, Database],
) -> None:
    theirs, ours = (set(database.execute(FUNCTIONS)) for database in both)
    assert len(theirs) >= 130
    assert sorted(theirs - ours) == []


def test_every_column_of_their_tables_is_here_with_its_type(
    both: tuple[Database, Database],
) -> None:
    theirs, ours = (set(database.execute(COLUMNS)) for database in both)
    assert len(theirs) > 60
    assert sorted(theirs - ours) == []


def test_ours_come_without_an_extension(both: tuple[Database, Database]) -> None:
    assert (
        both[1].value("select count(*) from pg_extension where extname = any(%s)", [*EXTENSIONS])
        == 0
    )
    for schema in EXTENSIONS:
        # Their ticker looks at the first character.
        assert both[1].value(f"select {schema}.version()") >= "3"
