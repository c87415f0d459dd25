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
