"""Migration of a database with unusual objects: equal, or reported."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from londiste.embedded.binaries import available_versions
from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database, Server
from tests.support.scenarios import odd_database, oracles
from tests.support.scenarios.harness import Cascade
from tests.support.scenarios.relocation import Move, owner


def _kinds(move: Move, way: str) -> dict[str, str]:
    found = move.json("check", "--schema", way, accept=[0, 1, 2])["findings"]
    return {one["kind"]: one["severity"] for one in found}


def _there_and_back(move: Move, old: Database, new: Database, way: str) -> None:
    """start, verify, switch, verify, back, with writes in between."""
    daemon = move.start("--schema", way)
    move.wait_in_step(new, len(odd_database.TABLES), 300, daemon)
    for to, by in ((None, old), ("switch", new), ("back", old)):
        if to is not None:
            move.run(to, "--block", "60")
        odd_database.write(by)
        answer = move.json("verify")
        assert answer["equal"], answer
        assert {t["table"] for t in answer["tables"]} == set(odd_database.TABLES)
    oracles.assert_same_rows(old, new, odd_database.TABLES)
    move.run("switch", "--block", "60")
    odd_database.assert_usable(old, new)
    move.run("finish")
    assert daemon.wait() == 0, daemon.said()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_odd_things_are_carried_or_told(cascade: Cascade, cluster16: Server) -> None:
    old, new = cascade.make_database(on=cluster16), cascade.make_database()
    old.execute(odd_database.SCHEMA)
    old.execute(odd_database.BY_SUPERUSERS)
    old.execute(odd_database.ALWAYS)
    move = Move(cascade, old.dsn, new.dsn)
    found = _kinds(move, "pg_dump")
    assert odd_database.FOUND | {"always"} == set(found)
    assert "critical" not in found.values()
    old.execute(odd_database.NOT_ALWAYS)
    _there_and_back(move, old, new, "auto")
    # pg_dump makes what is not carried, too; its rows stay behind.
    assert new.value("select count(*) from scratch") == 0
    assert new.value("select mysum(a) from counted") > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("versions", [(18, 15), (15, 18), (18, 18), (14, 18), (18, 14), (14, 15)])
def test_odd_things_move_in_any_direction_without_pg_dump(
    versions: tuple[int, int], cascade: Cascade, new_cluster: Callable[..., Cluster]
) -> None:
    for version in versions:
        if version not in available_versions():
            pytest.skip(f"no PostgreSQL {version} (LONDISTE_PGBIN)")
    old, new = (
        cascade.make_database(on=new_cluster(name, version=version))
        for name, version in zip(("from", "to"), versions, strict=True)
    )
    old.execute(odd_database.SCHEMA)
    old.execute(odd_database.BY_SUPERUSERS)
    move = Move(cascade, old.dsn, new.dsn)
    found = _kinds(move, "create")
    wanted = odd_database.FOUND | {"left-out"} | ({"older"} if versions[0] > versions[1] else set())
    assert set(found) == wanted
    assert "critical" not in found.values()
    if versions[0] > versions[1]:
        # pg_dump of a later release writes what an older one does not understand.
        assert move.json("check", accept=[1])["schema"] == "create"
    _there_and_back(move, old, new, "create")
    assert new.value("select to_regclass('scratch') is null")


@pytest.mark.timeout(300)
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


@pytest.mark.timeout(300)
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
