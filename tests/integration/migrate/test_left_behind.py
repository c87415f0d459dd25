"""What a migration cannot move, and what stops a copy, is in the findings of ``check``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from londiste.migrate import database_settings
from tests.fixtures.cluster import Database, wanted_version
from tests.integration.migrate.test_schema_copy import move

SETTINGS = """
alter database "{name}" set timezone = 'Europe/Vienna';
alter database "{name}" set search_path = app, "$user", "o'd""d";
alter database "{name}" set app.key = 'geheim';
alter role "{role}" in database "{name}" set statement_timeout = '5s';
comment on database "{name}" is 'the ''shop''';
revoke connect on database "{name}" from public;
grant connect on database "{name}" to "{role}";
"""


def _found(old: Database, new: Database, kind: str, what: str = "") -> dict[str, Any]:
    findings = json.loads(move(old, new, "check", "--json").stdout)["findings"]
    (one,) = (f for f in findings if f["kind"] == kind and what in f["what"])
    assert isinstance(one, dict)
    return one


def test_settings_and_grants_of_the_database_are_one_finding_whose_statements_move_them(
    database16: Database, new_database: Callable[..., Database]
) -> None:
    new = new_database()
    role = f"user {database16.name}"
    for one in (database16, new):
        one.execute(f'create role "{role}"')
    # All in one string are one transaction, which may not contain the first of them.
    for statement in SETTINGS.format(name=database16.name, role=role).strip().split(";\n"):
        database16.execute(statement.rstrip(";"))
    found = _found(database16, new, "database")
    assert "geheim" not in json.dumps(found) and '"app"."key"' in found["do"]
    for statement in found["sql"]:
        new.execute(statement)
    there, here = (database_settings.read(one.connect()) for one in (database16, new))
    assert {one for one in there.settings if one[1] != "app.key"} == here.settings
    assert (there.grants, there.comment) == (here.grants, here.comment)
    assert _found(database16, new, "database")["sql"] == []
    for one in (database16, new):
        one.execute(f'drop owned by "{role}"; drop role "{role}"')


def test_constraints_that_rows_may_violate_are_named(
    database16: Database, new_database: Callable[..., Database]
) -> None:
    database16.execute(
        "create table t (id int primary key, a int); insert into t values (1, -1);"
        ' alter table t add constraint "po s" check (a > 0) not valid;'
        " create domain d as int; create table u (id int primary key, v d);"
        " alter domain d add constraint small check (value < 10) not valid"
    )
    found = _found(database16, new_database(), "not-valid")
    assert found["sql"] == [
        'alter domain public.d validate constraint "small"',
        'alter table public.t validate constraint "po s"',
    ]
    assert "drop the constraint until the copy is complete" in found["do"]


def test_what_an_older_server_cannot_have_is_named_before(
    database16: Database, new_database: Callable[..., Database]
) -> None:
    if wanted_version() < 18:
        pytest.skip("needs PostgreSQL 18")
    old = new_database()
    old.execute(
        "create function f(int) returns int language sql immutable as 'select $1';"
        " create table t (id int primary key, a int check (f(a) > 0));"
        " alter table t add constraint a_there not null a not valid"
    )
    found = _found(old, database16, "left-out", "column a of table public.t may be NULL")
    assert found["severity"] == "warning" and "needs PostgreSQL 18" in found["what"]
    # It is not created, so no row stops the copy.
    assert '"not-valid"' not in move(old, database16, "check", "--json").stdout
    old.execute("create table u (a int4range, b int4range, primary key (a, b without overlaps))")
    found = _found(old, database16, "structure", "table public.u cannot be created")
    assert found["severity"] == "critical"
    database16.execute("create table u (a int4range, b int4range, primary key (a, b))")
    assert '"structure"' not in move(old, database16, "check", "--json").stdout


def test_a_setting_with_which_captures_do_not_fire_is_critical_on_both_sides_and_not_copied(
    database16: Database, new_database: Callable[..., Database]
) -> None:
    new = new_database()
    database16.execute("create table t (id int primary key)")
    assert move(database16, new, "start", "--no-daemons").exit_code == 0
    for one in (database16, new):
        one.execute(f'alter database "{one.name}" set session_replication_role = replica')
        found = _found(database16, new, "replication-role")
        assert found["severity"] == "critical"
        assert "session_replication_role" not in json.dumps(
            json.loads(move(database16, new, "check", "--json").stdout)["findings"][1:]
        )
        done = move(database16, new, "switch", "--ignore-missing")
        assert "session_replication_role is replica for database" in str(done.exception)
        for statement in found["sql"]:
            one.execute(statement)
