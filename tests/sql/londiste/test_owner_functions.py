"""Functions that write or create tables of other roles run their code as the owner."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from londiste.db.names import TableName
from londiste.db.queries import first, tuples
from londiste.db.relation import shapes
from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_leaf
from tests.fixtures.owners import OWNER, as_owner, make_scene, proof

_EVIL = """
    create function shop.evil() returns boolean language plpgsql as $evil$
    begin
        insert into shop.seen values (current_user);
        begin
            execute 'reset role';
        exception when others then
        end;
        begin
            insert into vault.proof values ('inside');
        exception when others then
        end;
        perform set_config('datestyle', 'German', false), set_config('search_path', 'shop', false);
        return true;
    end $evil$;
    create function shop.as_if_immutable(text) returns text language plpgsql immutable as
        'begin perform shop.evil(); return $1; end';
"""

MERGE = (
    "select londiste.merge_on_time(%s, 1, 1, '2026-06-01', 1, null, %s, %s, null, null, null, null)"
)
MAKE = "select londiste.create_partition('shop.p', 'shop.p_2026', '', 'at', '2026-05-06', 'year')"


@pytest.fixture
def scene(pgq_db: Database) -> Database:
    make_scene(pgq_db)
    as_owner(pgq_db, _EVIL)
    return pgq_db


def settings(database: Database, statement: str, *values: object) -> None:
    """Runs a statement in a session of the program, which keeps its settings."""
    ask = (
        "select name, setting from pg_catalog.pg_settings"
        " where context in ('user', 'superuser') and name not like 'plpgsql.%'"
    )
    with database.connect(replica=True, autocommit=True) as conn:
        before = conn.execute(ask).fetchall()
        with conn.transaction():
            inside = conn.execute(ask).fetchall()
            conn.execute(statement.encode(), values or None)
            assert conn.execute(ask).fetchall() == inside
        assert conn.execute(ask).fetchall() == before


def require_only_owner(database: Database) -> None:
    assert proof(database) == []
    assert database.execute("select distinct who from shop.seen") == [(OWNER,)]


@pytest.mark.parametrize("op", ["INSERT", "DELETE"])
@pytest.mark.parametrize(
    "carrier",
    [
        "alter table shop.t add check (shop.evil())",
        "create function shop.fires() returns trigger language plpgsql as"
        " 'begin perform shop.evil(); return coalesce(new, old); end';"
        " create trigger x before insert or delete on shop.t for each row"
        " execute function shop.fires(); alter table shop.t enable always trigger x",
        "create domain shop.checked as text check (shop.evil());"
        " alter table shop.t alter v type shop.checked",
    ],
)
def test_a_merge_runs_as_the_owner(scene: Database, carrier: str, op: str) -> None:
    as_owner(
        scene,
        "alter table shop.t add at timestamptz;"
        " insert into shop.t values (1, 'a', '2026-01-01'), (2, 'b', null)",
    )
    as_owner(scene, carrier)
    # The session that made them has run them.
    scene.execute("truncate shop.seen, vault.proof")
    conf = json.dumps({"timefield": "at", "table": "shop.t"})
    kind = json.dumps({"op": op, "table": ["shop", "t"], "pkey": ["id"]})
    image = {"id": 3 if op == "INSERT" else 1, "v": "c"}
    if op == "INSERT":
        image["at"] = "2026-02-01"
    settings(scene, MERGE, conf, kind, json.dumps(image))
    ids = {row[0] for row in scene.execute("select id from shop.t")}
    assert ids == ({1, 2, 3} if op == "INSERT" else {2})
    assert {row[0] for row in scene.execute("select who from shop.seen")} <= {OWNER}
    assert proof(scene) == []


@pytest.mark.parametrize(
    "parent",
    [
        "create table shop.p (id int8, at timestamptz, unique (id, at)) partition by range (at)",
        "create table shop.p (id int8 primary key, at timestamptz)",
    ],
)
@pytest.mark.parametrize(
    "carrier",
    [
        "create unique index on shop.p (id, at) where shop.as_if_immutable('x') is not null",
        "create index on shop.p ((shop.as_if_immutable('x')))",
        "alter table shop.p add check (shop.as_if_immutable('x') is not null)",
        "alter table shop.p add v text default shop.as_if_immutable('x')",
    ],
)
def test_a_partition_is_made_as_the_owner(scene: Database, parent: str, carrier: str) -> None:
    if "unique index" in carrier and "partition" in parent:
        carrier = carrier.replace("unique ", "")
    as_owner(scene, f"{parent}; {carrier}")
    scene.execute("truncate shop.seen, vault.proof")
    settings(scene, MAKE)
    assert {row[0] for row in scene.execute("select who from shop.seen")} <= {OWNER}
    assert proof(scene) == []
    with scene.connect(autocommit=True) as conn:
        indexes = conn.execute(
            "select replace(replace(pg_get_indexdef(indexrelid), 'p_2026', 'p'), ' ONLY', '')"
            " from pg_index where indrelid in ('shop.p'::regclass, 'shop.p_2026'::regclass)"
        ).fetchall()
        # Each of the parent, and its like.
        assert len(indexes) == 2 * len(set(indexes)), indexes
    assert (
        scene.value(
            "select relowner::regrole::text from pg_class where oid = 'shop.p_2026'::regclass"
        )
        == OWNER
    )
    as_owner(scene, "insert into shop.p_2026 (id, at) values (1, '2026-03-01')")
    assert scene.value("select count(*) from shop.p") == 1


def test_a_session_of_another_program_keeps_what_it_has_set(scene: Database) -> None:
    as_owner(scene, "create table shop.p (id int8, at timestamptz) partition by range (at)")
    as_owner(scene, "alter table shop.p add check (shop.as_if_immutable('x') is not null)")
    scene.execute("truncate shop.seen, vault.proof")
    with scene.connect(autocommit=True) as conn:
        conn.execute("reset londiste.run_as_owner; reset search_path; reset datestyle")
        conn.execute("set work_mem = '7MB'; set statement_timeout = '77s'")
        conn.execute(MAKE.encode())
        path = conn.execute("show search_path").fetchone()
        assert path == ('"$user", public',)
        assert conn.execute("show statement_timeout").fetchone() == ("77s",)
    require_only_owner(scene)


def test_a_view_in_the_place_of_a_sequence_is_not_read(scene: Database) -> None:
    make_leaf(scene)
    as_owner(scene, "create sequence shop.s")
    take = (
        "alter sequence shop.s rename to old; create view shop.s as"
        " select 1::int8 as last_value, shop.evil() as is_called"
    )
    with (
        ThreadPoolExecutor(1) as threads,
        scene.connect(autocommit=True) as worker,
        scene.connect(autocommit=True) as other,
    ):
        pid = worker.info.backend_pid
        other.execute(f"set role {OWNER}; begin; {take}".encode())
        moved = threads.submit(
            worker.execute, "select londiste._seq_move('shop.s', 100, null, false, false)"
        )
        look = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
        while not scene.value(look, pid):
            assert not moved.done()
        other.execute("commit")
        moved.result()
        # What the rest of the transaction reads is not restricted.
        assert worker.execute("select is_called from shop.s").fetchone() == (True,)
    assert scene.value("select last_value from shop.old") == 100
    assert scene.value("select count(*) from shop.seen") == 1


def test_the_first_write_waits_for_no_lock_that_every_role_can_take(scene: Database) -> None:
    with scene.connect(autocommit=True) as low:
        low.execute("select pg_advisory_lock(hashtextextended('londiste_apply', 0))")
        with scene.connect(autocommit=False, lock_timeout_ms=500) as conn:
            written = conn.execute(
                "select londiste.write_as_owner('shop.t'::regclass,"
                " 'insert into shop.t values (1)', null, false, '{}', '{}')"
            ).fetchone()
            assert written == (["1"],)
            # A second session creates none beside it.
            lock = "select londiste._lock_owner_functions()"
            with scene.connect(lock_timeout_ms=100) as second:
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    second.execute(lock)


def test_the_lock_of_the_first_write_needs_a_right(scene: Database) -> None:
    for statement in (
        "select londiste._lock_owner_functions()",
        "lock table londiste.created_object in share update exclusive mode",
    ):
        with scene.connect(autocommit=False) as low:
            low.execute(f"set role {OWNER}")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                low.execute(statement.encode())


_INHERITED = """
    create function shop.later() returns trigger language plpgsql as $f$
    begin
        begin
            insert into vault.proof values (current_user);
        exception when insufficient_privilege then
            null;
        end;
        return new;
    end $f$;
    create table shop.p (id int8, v text) partition by list (id);
    create {kind} trigger c {when} on shop.p {later} for each row execute function shop.later();
    alter table shop.p enable always trigger c;
    create table shop.p1 partition of shop.p for values in (1);
"""


def test_a_deferrable_trigger_that_a_partition_inherits_is_refused(scene: Database) -> None:
    """In release 14 of PostgreSQL such a trigger is called internal, like those of keys."""
    as_owner(
        scene,
        _INHERITED.format(kind="constraint", when="after insert", later="deferrable")
        + "create function shop.fires() returns trigger language plpgsql as"
        " 'begin set constraints all deferred; insert into shop.p1 values (1); return null; end';"
        " create trigger x after insert on shop.t for each row execute function shop.fires();"
        " alter table shop.t enable always trigger x",
    )
    with scene.connect(replica=True) as conn:
        with pytest.raises(psycopg.Error, match=r"trigger c of table shop\.p1 is deferrable"):
            with conn.transaction():
                conn.execute(
                    "select londiste._run_as_owner('shop.t'::regclass,"
                    " 'insert into shop.t values (1)', null)"
                )
    assert proof(scene) == []


def test_a_trigger_that_a_partition_inherits_is_code(scene: Database) -> None:
    as_owner(scene, _INHERITED.format(kind="", when="before insert", later=""))
    with scene.connect(replica=True) as conn, conn.transaction():
        ask = "select londiste.copies_directly('shop.p1'::regclass)"
        assert conn.execute(ask).fetchone() == (False,)


def test_a_default_that_takes_from_a_sequence_of_another_role_is_code(scene: Database) -> None:
    scene.execute("create sequence vault.s")
    oid = scene.value("select 'vault.s'::regclass::oid")
    as_owner(scene, "create sequence shop.s; create table shop.d (id int8)")
    found = {}
    for default in (
        "nextval('shop.s')",
        "nextval('shop.s')::int4 + 1",
        f"nextval('{oid}')",
        f"nextval('{oid}'::regclass::oid::regclass)",
        "nextval(concat('shop.s')::regclass)",
        # May be created later, or is one of two.
        "nextval('4000000000')",
        "nextval('shop.s') + nextval('4000000000')",
    ):
        as_owner(scene, f"alter table shop.d alter id set default {default}")
        found[default] = scene.value("select londiste.copies_directly('shop.d'::regclass)")
    assert [default for default, direct in found.items() if direct] == list(found)[:2]
    as_owner(scene, f"alter table shop.d alter id set default nextval('{oid}')")
    scene.execute(f"grant usage on sequence vault.s to {OWNER}")
    as_owner(scene, "alter table shop.d add a serial, add b int generated always as identity")
    ask = "select londiste.copies_directly('shop.d'::regclass)"
    assert scene.value(ask)
    as_owner(scene, "alter table shop.d add check (nextval(id::oid) > 0)")
    assert not scene.value(ask)


@pytest.mark.parametrize(
    ("options", "trusted"),
    [
        ("inherit false, set false", False),
        ("inherit true, set false", True),
        ("inherit false, set true", True),
    ],
)
def test_a_member_without_rights_is_not_trusted(
    pgq_db: Database, options: str, trusted: bool
) -> None:
    conn = pgq_db.connect()
    if conn.info.server_version < 160000:
        pytest.skip("grants have these options since PostgreSQL 16")
    me, member = pgq_db.value("select current_user::regrole::text"), f"member_{pgq_db.name}"
    pgq_db.execute(
        f"create role {member}; grant {me} to {member} with {options}; create domain public.word as"
        " text; create table public.words (id public.word);"
        f" alter domain public.word owner to {member};"
        f" create table public.t (id int); alter table public.t owner to {member};"
        f" grant update on pgq.queue to {member}; grant create on schema pgq to {member}"
    )
    try:
        asked: dict[str, object] = {
            "_is_of_others": pgq_db.value(f"select londiste._is_of_others('{member}'::regrole)"),
            "table_oid": (first(conn, "table_oid", schema="public", name="t") or ())[1],
            "table_shapes": shapes(conn, [TableName("public", "t")]).popitem()[1].of_other,
            "owners_without_rights": tuples(conn, "owners_without_rights", tables=["public.t"]),
            "types_of_others": tuples(conn, "types_of_others", tables=["public.words"]),
            "excess_rights": tuples(conn, "excess_rights", schemas=["pgq"], nodes=[]),
            "schema_doubts": tuples(conn, "schema_doubts", schemas=["pgq"], installing=True),
        }
    finally:
        pgq_db.execute(f"drop owned by {member} cascade; drop role {member}")
    assert [name for name, found in asked.items() if bool(found) is trusted] == []
