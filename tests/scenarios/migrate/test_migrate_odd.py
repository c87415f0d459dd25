"""Migration of a database with unusual objects: equal, or reported."""

from __future__ import annotations

import pytest

from tests.fixtures.cluster import Server
from tests.support.scenarios import odd_database
from tests.support.scenarios.harness import Cascade
from tests.support.scenarios.relocation import Move, owner


@pytest.mark.slow
def test_odd_things_are_carried_or_told(cascade: Cascade, cluster16: Server) -> None:
    old, new = cascade.make_database(on=cluster16), cascade.make_database()
    old.execute(odd_database.SCHEMA)
    old.execute(odd_database.BY_SUPERUSERS)
    old.execute(odd_database.ALWAYS)
    move = Move(cascade, old.dsn, new.dsn)
    found = odd_database.kinds(move, "pg_dump")
    # Only later releases than that of the old server can switch event triggers off.
    assert odd_database.FOUND | {"always", "event-triggers"} == set(found)
    assert "critical" not in found.values()
    old.execute(odd_database.NOT_ALWAYS)
    odd_database.there_and_back(move, old, new, "auto")
    # pg_dump makes what is not carried, too; its rows stay behind.
    assert new.value("select count(*) from scratch") == 0
    assert new.value("select mysum(a) from counted") > 0


def test_tables_that_somebody_has_made_have_to_take_the_same_rows(
    cascade: Cascade, cluster16: Server
) -> None:
    old, new = cascade.make_database(on=cluster16), cascade.make_database()
    old.execute(
        "create table t (id int primary key, a text, n numeric(10, 4));"
        " insert into t select g, 'x', g / 7.0 from generate_series(1, 100) g"
    )
    new.execute("create table t (id int, a text, n numeric(10, 2), more int not null)")
    move = Move(cascade, old.dsn, new.dsn)
    refused = move.run("start", "--schema", "existing", accept=[3])
    for word in ("primary key (id)", "rounded", "column more"):
        assert word in move.run("check", "--schema", "existing", accept=[2]).out
    assert "nothing was changed" in refused.err
    assert old.value("select to_regnamespace('pgq') is null")
    new.execute(
        "alter table t alter n type numeric(10, 4), add primary key (id), alter id type bigint,"
        " alter more drop not null"
    )
    found = move.json("check", "--schema", "existing", accept=[1])["findings"]
    assert [one["severity"] for one in found if one["kind"] == "structure"] == ["warning"] * 2
    move.run("start", "--schema", "existing", "--no-daemons")
    assert new.value("select count(*) from londiste.table_info where local") == 1


def test_rows_that_a_policy_hides_forbid_the_move(cascade: Cascade, cluster16: Server) -> None:
    old, new = cascade.make_database(on=cluster16), cascade.make_database()
    dsns = [owner(database) for database in (old, new)]
    old.execute("create table secret (id int primary key, who text)")
    old.execute("alter table secret enable row level security, force row level security")
    old.execute(f'alter table secret owner to "owner_of_{old.name}"')
    found = Move(cascade, dsns[0], dsns[1]).json("check", accept=[2])["findings"]
    assert [one["severity"] for one in found if one["kind"] == "policies"] == ["critical"] * 2
    old.execute("alter table secret no force row level security")
    found = Move(cascade, dsns[0], dsns[1]).json("check", accept=[0, 1, 2])["findings"]
    assert [one for one in found if one["kind"] == "policies"] == []
