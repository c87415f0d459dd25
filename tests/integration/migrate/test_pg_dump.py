"""pg_dump output for ``londiste migrate`` has the application's objects and none of Londiste's."""

from __future__ import annotations

from pathlib import Path

from londiste.migrate import pg_dump
from tests.fixtures.cluster import Database


def test_no_schema_of_londiste_is_carried_to_the_new_server(pgq_db: Database) -> None:
    role = f"owner_of_{pgq_db.name}"
    pgq_db.execute(f"create role {role}")
    pgq_db.execute("create table public.kept (id int primary key)")
    # A worker has written tables of this role here: the function has the role's number of this
    # server in its name.
    pgq_db.execute("select londiste._owner_function(%s::regrole)", role)
    release = pgq_db.value("select current_setting('server_version_num')::int / 10000")
    dumper = pg_dump.find_dumper(release)
    assert dumper is not None
    text = pg_dump.dump(pgq_db.dsn, dumper, bare=False)
    assert "CREATE TABLE public.kept" in text
    assert "londiste" not in text
    assert "pgq" not in text
    pgq_db.execute(f"drop owned by {role}; drop role {role}")


def test_no_secret_is_in_the_arguments_of_pg_dump(database: Database, tmp_path: Path) -> None:
    database.execute("create table public.kept (id int primary key)")
    dumper = pg_dump.find_dumper(
        database.value("select current_setting('server_version_num')::int / 10000")
    )
    assert dumper is not None
    seen = tmp_path / "seen"
    wrapper = tmp_path / "pg_dump"
    wrapper.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {seen}\nls -l "$PGSERVICEFILE" >> {seen}\n'
        f'cat "$PGSERVICEFILE" > {tmp_path}/service\nexec {dumper.program} "$@"\n'
    )
    wrapper.chmod(0o755)
    text = pg_dump.dump(
        f"{database.dsn} password=geheim1 sslpassword=geheim2",
        pg_dump.Dumper(wrapper, dumper.version),
        bare=False,
    )
    assert "CREATE TABLE public.kept" in text
    assert "geheim" not in seen.read_text() and "-rw-------" in seen.read_text()
    assert "sslpassword=geheim2" in (tmp_path / "service").read_text()
