"""Triggers that are taken over write the events they wrote, or nothing is taken over.

The extension is one made of our first version: its triggers evaluate expressions in another way.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from londiste.errors import InstallError
from londiste.install import adopt, source
from londiste.install.source import FileKind
from tests.fixtures.cluster import Database
from tests.fixtures.owners import OWNER, make_scene

FROZEN = Path(__file__).parent / "frozen" / "4.0.0"
TABLE = 'create table t (id int primary key, "user" text, v text, secret text)'


@pytest.fixture
def extended(database: Database) -> Iterator[Database]:
    """A database with an extension pgq and a table in a queue."""
    if database.connect().info.server_version < 180000:
        pytest.skip("extension_control_path came with PostgreSQL 18")
    # The server has another user than the tests, who must read it.
    home = Path(tempfile.mkdtemp())
    home.chmod(0o755)
    folder = home / "extension"
    folder.mkdir()
    (folder / "pgq.control").write_text("default_version = '3.5'\n")
    component = source.load(FROZEN)["pgq"]
    files = [
        f.text for f in component.in_order() if f.kind not in {FileKind.UPGRADE, FileKind.AFTER}
    ]
    settings = "set local check_function_bodies = off; set local search_path = pg_catalog;\n"
    (folder / "pgq--3.5.sql").write_text(settings + "\n".join(files))
    database.execute(
        f"set extension_control_path = '{home}:$system'; create extension pgq;"
        f" reset search_path; select pgq.create_queue('q'); {TABLE}"
    )
    yield database
    shutil.rmtree(home)


def attach(database: Database, name: str, *args: str) -> None:
    quoted = ", ".join("'" + arg.replace("'", "''") + "'" for arg in ("q", *args))
    database.execute(
        f"create trigger {name} after insert or update or delete on t"
        f" for each row execute function pgq.logutriga({quoted})"
    )


@pytest.mark.parametrize("rows", [0, 3])
def test_a_trigger_that_would_write_other_events_is_named_and_nothing_is_changed(
    extended: Database, rows: int
) -> None:
    attach(extended, "fine", "ignore=secret", "when=id is null or id > 1")
    attach(extended, "other", "ev_extra3=user")
    attach(extended, "refused", "ev_extra2=nothing + 1")
    extended.execute(
        "set session_replication_role = replica;"
        f" insert into t select g, 'u', 'v', 's' from generate_series(1, {rows}) g"
    )
    content = extended.execute("select * from t order by 1")
    conn = extended.connect()
    with pytest.raises(InstallError, match="1 triggers would write different events") as caught:
        adopt.adopt(conn)
    assert "trigger other of public.t: INSERT" in str(caught.value.detail)
    assert "fine" not in str(caught.value.detail)
    assert adopt.found(conn) == ["pgq"]
    extended.execute("drop trigger other on t")
    extended.execute("drop trigger refused on t")
    extended.execute("insert into t values (10, 'u', 'v', 's')")
    assert adopt.adopt(conn)
    extended.execute("insert into t values (11, 'u', 'v', 's')")
    assert extended.execute("select * from t where id < 10 order by 1") == content
    assert extended.execute("select ev_data from pgq.event_template order by ev_id") == [
        ("id=10&user=u&v=v",),
        ("id=11&user=u&v=v",),
    ]


def test_tables_of_any_shape_are_tried(extended: Database) -> None:
    extended.execute("create domain filled as text not null")
    extended.execute(
        "create table odd (a filled, b int generated always as identity, c int generated always as"
        ' (b * 2) stored, primary key (b)); create table "No Key" (); '
        "create table parted (id int, v text) partition by range (id);"
        "create table parted1 partition of parted for values from (0) to (9);"
    )
    for table in ("odd", '"No Key"', "parted"):
        extended.execute(
            f"create trigger x after insert or update or delete on {table}"
            " for each row execute function pgq.jsontriga('q', 'backup')"
        )
    extended.execute("insert into odd (a) values ('x')")
    extended.execute("insert into parted values (1, 'x')")
    extended.execute(
        "create trigger y before insert on odd"
        " for each row execute function pgq.sqltriga('other', 'SKIP')"
    )
    assert adopt.adopt(extended.connect())
    assert extended.value("select count(*) from odd") == 1


#: Tables of a role, each with one way to have its function called.
_EVIL = f"""
    create sequence vault.calls;
    create function shop.evil(text) returns text immutable language plpgsql as $$
    begin
        perform pg_catalog.nextval('vault.calls');
        return $1;
    exception
        when others then
            return $1;
    end
    $$;
    alter function shop.evil(text) owner to {OWNER};
    set role {OWNER};
    create domain shop.checked as text check (shop.evil(value) <> 'no');
    create table shop.expression (id int primary key, v text);
    create table shop.generated (id int primary key, v text,
        w text generated always as (shop.evil(v)) stored);
    create table shop.domain (id int primary key, v shop.checked);
    create table shop.index (id int primary key, v text);
    create index on shop.index (shop.evil('indexed'));
    create table shop.checked_rows (id int primary key,
        v text check (shop.evil('checked') <> 'no'));
    create table shop.plain (id int primary key, v text check (v <> ''), w text generated always as
        (lower(v)) stored);
"""
_HOSTILE = ("expression", "generated", "domain", "index", "checked_rows")


def test_no_code_of_an_owner_runs_as_the_installer(
    extended: Database, caplog: pytest.LogCaptureFixture
) -> None:
    make_scene(extended)
    extended.execute(_EVIL)
    arguments = {"expression": ", 'ev_extra4=shop.evil(''e'')'", "plain": ", 'ignore=v', 'backup'"}
    for table in (*_HOSTILE, "plain"):
        extended.execute(
            f"insert into shop.{table} values (1, 'a');"
            f" create trigger cap after insert or update or delete on shop.{table}"
            f" for each row execute function pgq.sqltriga('q'{arguments.get(table, '')});"
        )
    # Its own table, to which the role may add triggers.
    extended.execute(
        f"grant trigger on t to {OWNER}; create trigger cap after insert on t"
        " for each row execute function pgq.sqltriga('q', 'when=true')"
    )
    extended.execute("alter sequence vault.calls restart")
    with caplog.at_level("WARNING", logger="londiste.install.sampled"):
        assert adopt.adopt(extended.connect())
    # The sample is rolled back; a sequence is not.
    assert extended.value("select not is_called from vault.calls")
    named = {record.args[1] for record in caplog.records if isinstance(record.args, tuple)}
    assert named == {*(f"shop.{table}" for table in _HOSTILE), "public.t"}
