"""A capture function can neither be prepared by another role nor called as the ticker."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.fixtures.cluster import Database


@pytest.fixture
def attacker(pgq_db: Database) -> Iterator[str]:
    """A role that runs workers, and owns no table of others."""
    name = f"attacker_{pgq_db.name}"
    pgq_db.execute(f"create role {name} in role londiste_writer")
    yield name
    pgq_db.execute(f"drop owned by {name}")
    pgq_db.execute(f"drop role {name}")


def test_a_function_that_was_there_before_does_not_stay_its_makers(
    pgq_db: Database, attacker: str
) -> None:
    with pgq_db.connect() as conn:
        conn.execute("create table public.t (id int4 primary key)")
        conn.execute("select pgq.create_queue('q')")
        (name,) = conn.execute("select londiste._capture_name('q', 'public.t')").fetchone() or ("",)
        conn.execute(f"set role {attacker}")
        conn.execute(
            f"create function londiste_capture.{name}() returns trigger language plpgsql"
            " as $$ begin return null; end $$"
        )
        conn.execute("reset role")
        conn.execute("select londiste.create_capture('q', 'public.t')")
    owner = "select proowner::regrole::text from pg_proc where proname = %s"
    assert pgq_db.value(owner, name) != attacker
    with pgq_db.connect() as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute(f"set role {attacker}")
        conn.execute(f"drop function londiste_capture.{name}()")


def test_the_ticker_calls_no_function_of_an_administrator_of_queues(
    pgq_db: Database, attacker: str
) -> None:
    with pgq_db.connect() as conn:
        conn.execute(f"create schema mine authorization {attacker}")
        conn.execute(f"set role {attacker}")
        for definer in ("", "security definer"):
            conn.execute(
                f"create function mine.f{len(definer)}(text) returns int4 language sql {definer}"
                " as 'select 0'"
            )
        conn.execute("create function mine.more(text, int4 default 0) returns int4 return 0")
        conn.execute("select pgq.create_queue('q')")
        conn.execute(
            "select pgq.set_queue_config('q', 'extra_maint',"
            " '{mine.f0,mine.f16,mine.more,mine.gone,pgq.maint_purge_keys}')"
        )
        called = "select func_name from pgq.maint_operations() where func_arg = 'q'"
        refused = "pgq._refuse_maintenance"
        assert [name for (name,) in conn.execute(called)] == [
            "mine.f0",
            "mine.f16",
            refused,
            refused,
            "pgq.maint_purge_keys",
        ]
        conn.execute("reset role")
        assert [name for (name,) in conn.execute(called)] == [refused] * 4 + [
            "pgq.maint_purge_keys"
        ]
