"""A database migrates to another server under writes, and back."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from londiste.embedded.binaries import available_versions, find_binaries
from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database, Server
from tests.support.scenarios import oracles, relocation
from tests.support.scenarios.harness import Cascade, shared_file
from tests.support.scenarios.processes import Process
from tests.support.scenarios.relocation import Application, Move, Proxy

OURS = (
    "select count(*) from pg_namespace"
    " where nspname in ('pgq', 'pgq_ext', 'pgq_coop', 'pgq_node', 'londiste')"
)
CAPTURES = "select count(*) from pg_trigger where not tgisinternal"


def _two(cascade: Cascade, cluster16: Server) -> tuple[Database, Database, Move]:
    """An old database with rows, an empty new one."""
    old, new = cascade.make_database(on=cluster16), cascade.make_database()
    old.execute(relocation.SCHEMA)
    return old, new, Move(cascade, old.dsn, new.dsn)


def _assert_ended_quietly(daemon: Process) -> None:
    """What works on while the nodes go advises nobody to create or to install something."""
    said = daemon.said()
    assert " ERROR " not in said, said
    assert "londiste create-root" not in said and "londiste install" not in said, said


SWITCH = ("run", "--switch", "--block", "60")


def _wait_switched(move: Move, new: Database, daemon: Process) -> None:
    """Until ``run --switch`` has switched."""

    def is_root() -> bool:
        assert daemon.running(), daemon.said()
        with contextlib.suppress(psycopg.errors.UndefinedTable):
            return bool(new.value("select node_type from pgq_node.node_info") == "root")
        return False

    move.cascade.wait(is_root, "the new root", 200)
    move.cascade.wait(lambda: move.json("status")["phase"] == "switched", "the switch")


def _assert_a_wrong_row_is_found(move: Move, follower: Database) -> None:
    wrong = "set session_replication_role = replica; update app.line set quantity = {} where id = 7"
    follower.execute(wrong.format(70))
    found = move.json("verify", accept=[3])
    assert [t["table"] for t in found["tables"] if not t["equal"]] == ["app.line"]
    follower.execute(wrong.format(7))


def _assert_unknown_tables_are_not_equal(move: Move, follower: Database) -> None:
    follower.execute(
        "alter table app.customer rename name to kept; alter table app.customer add name int;"
        " alter table app.line rename quantity to kept"
    )
    done = move.run("verify", "--json", accept=None)
    told = json.loads(done.out)
    assert done.code == told["exit_code"] == 1 and "invalid input syntax" in done.err, str(done)
    assert not told["equal"] and [one["table"] for one in told["failed"]] == ["app.customer"]
    assert [t["table"] for t in told["tables"] if not t["equal"]] == ["app.line"]
    assert "sessions that write" not in done.err
    follower.execute(
        "alter table app.customer drop name; alter table app.customer rename kept to name;"
        " alter table app.line rename kept to quantity"
    )


@pytest.mark.parametrize("in_one", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_database_moves_while_somebody_writes_and_goes_back(
    in_one: bool, cascade: Cascade, cluster16: Server
) -> None:
    """By ``run --switch``; in the slow run by a command for each step as well."""
    old, new, move = _two(cascade, cluster16)
    daemon = move.start(command=SWITCH) if in_one else move.start()
    with Application([old.dsn, new.dsn]) as application:
        if in_one:
            _wait_switched(move, new, daemon)
            _assert_a_wrong_row_is_found(move, old)
        else:
            move.wait_in_step(new, len(relocation.TABLES))
            application.wait(20)
            _assert_a_wrong_row_is_found(move, new)
            move.run("switch", "--block", "60")
        application.wait(20)
        assert new.value("select count(*) from public.written where at = 'place 1'") > 0
        seen = move.json("status")
        assert (seen["phase"], seen["root"]) == ("switched", "new")
        assert seen["missing"] == []
        move.run("back", "--block", "60")
        application.wait(20)
        confirmed = application.stop()
    application.assert_numbers_go_up()
    assert move.json("verify")["equal"]
    if in_one:
        _assert_unknown_tables_are_not_equal(move, new)
    for database in (old, new):
        assert database.value("select count(*) from public.written") == confirmed
        assert database.value("select count(*) from app.totals") == 100
    oracles.assert_same_rows(old, new, relocation.TABLES)
    refused = move.run("finish", accept=[3])
    assert "londiste migrate finish --abandon" in refused.err
    if in_one:
        move.run("switch", "--block", "60")
        move.run("finish")
    else:
        move.run("finish", "--abandon")
    assert daemon.wait() == 0, daemon.said()
    _assert_ended_quietly(daemon)
    for database in (old, new):
        assert database.value(OURS) == 0
        assert database.value(CAPTURES) == 1
        assert database.value("select app.name_of(c) is not null from app.customer c limit 1")


DDL = """
create index by_customer on app.line (customer);
alter table app.line add constraint small check (quantity < 1000000);
create trigger touch_more before update on app.customer
    for each row execute function app.touch();
alter table app.customer add column note text;
"""
UNDO = """
drop index app.by_customer;
alter table app.line drop constraint small;
drop trigger touch_more on app.customer;
alter table app.customer drop column note;
"""


@pytest.mark.slow
def test_sequences_stay_unused_and_structure_is_compared_on_both_ways(
    cascade: Cascade, cluster16: Server
) -> None:
    old, new, move = _two(cascade, cluster16)
    old.execute("create sequence app.unused start 7; create sequence app.lately")
    daemon = move.start()
    move.wait_in_step(new, len(relocation.TABLES))
    assert move.json("verify")["findings"] == []
    lacks = [
        "table app.customer has no column note in the {} database",
        "table app.customer has no trigger touch_more in the {} database",
        "table app.line has no check constraint small in the {} database",
        "table app.line has no index by_customer in the {} database",
    ]
    unused = "select last_value, is_called from app.unused"
    for to, root, other in (("switch", old, new), ("back", new, old)):
        side = "new" if other is new else "old"
        root.execute(DDL)
        found = move.json("verify", accept=[3])
        assert not found["equal"]
        assert all(table["equal"] for table in found["tables"])
        assert sorted(f["what"] for f in found["findings"]) == [one.format(side) for one in lacks]
        refused = move.run(to, accept=[3]).err
        for lack in lacks:
            assert lack.format(side) in refused
        assert "nothing was changed" in refused
        root.execute(UNDO)
        # What is in the other database alone is a warning, and stops nothing.
        other.execute(DDL)
        found = move.json("verify")
        assert found["equal"]
        assert len(found["findings"]) == len(lacks)
        other.execute(UNDO)
        move.run(to, "--block", "60")
        assert other.execute(unused) == [(7, False)]
        assert root.execute(unused)[0] != (7, True)
    # A sequence that somebody sets back is named.  It moves once before: a ticker that looked in
    # the middle of many calls of nextval would send the rest after the value is set back.
    old.execute("select setval('app.lately', 50000)")
    cascade.wait(lambda: new.value("select last_value from app.lately") > 50000, "the value", 60)
    new.execute("select setval('app.lately', 3)")
    found = move.json("verify", "--timeout", "5", accept=[3])
    assert [f["what"] for f in found["findings"]] == [
        "sequence app.lately of the new database lags behind that of the other one"
    ]
    old.execute("create sequence app.later")
    assert "app.later" in move.run("switch", accept=[3]).err
    assert move.json("status")["root"] == "old"
    move.run("finish", "--abandon")
    assert daemon.wait() == 0, daemon.said()
    assert old.execute(unused) == [(7, False)]
    _assert_ended_quietly(daemon)


def test_a_beginning_and_an_end_that_are_killed_finish_when_given_again(
    cascade: Cascade, cluster16: Server
) -> None:
    old, new, move = _two(cascade, cluster16)
    begin = ("start", "--no-daemons", "--schema", "create")
    assert move.to_the_end(*begin, steps=7) >= 2
    assert "already set up" in move.run(*begin).err
    added = "select count(*) from londiste.table_info where local"
    for database in (old, new):
        assert database.value(added) == len(relocation.TABLES)
        assert database.value("select count(*) from londiste.seq_info where local") == 4
        assert database.value("select app.next_ticket()") >= 100
    assert new.value("select count(*) from pg_matviews") == 1
    keys = (
        "select count(*) from pg_constraint"
        " where contype = 'f' and connamespace = 'app'::regnamespace"
    )
    assert new.value(keys) == 1
    assert move.to_the_end("finish", "--abandon", steps=2) >= 2
    assert "it is finished, or has not begun" in move.run("finish").err
    for database in (old, new):
        assert database.value(OURS) == 0
        assert database.value(CAPTURES) == 1
    assert old.value("select count(*) from app.line") == 500


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_one_command_moves_a_database_however_often_it_is_killed(
    killed: bool, cascade: Cascade, cluster16: Server
) -> None:
    old, new, move = _two(cascade, cluster16)
    with Application([old.dsn, new.dsn]) as application:
        # Killed while it sets up, and while it switches.
        died = 0
        while killed and move.json("status")["phase"] != "switching":
            move.run(
                *SWITCH,
                accept=[-9],
                LONDISTE_CRASH="plan.after-step:8",
            )
            died += 1
        assert died >= 2 * killed
        daemon = move.start(command=SWITCH)
        _wait_switched(move, new, daemon)
        application.wait(20)
        confirmed = application.stop()
    application.assert_numbers_go_up()
    # It stays, and keeps the old database in step.
    assert move.json("verify")["equal"]
    for database in (old, new):
        assert database.value("select count(*) from public.written") == confirmed
    move.run("finish")
    assert daemon.wait() == 0, daemon.said()


@pytest.mark.slow
def test_one_command_does_not_switch_to_rows_that_differ(
    cascade: Cascade, cluster16: Server
) -> None:
    _, new, move = _two(cascade, cluster16)
    move.run("start", "--until-ready")
    new.execute(
        "set session_replication_role = replica; update app.line set quantity = 70 where id = 7"
    )
    different = move.run("run", "--switch", accept=[3])
    assert "app.line" in different.out
    assert "nothing was switched" in different.err
    assert move.json("status")["root"] == "old"


def test_a_move_does_not_begin_where_rows_would_be_lost(
    cascade: Cascade, cluster16: Server
) -> None:
    old, new, move = _two(cascade, cluster16)
    new.execute("create schema app; create table app.line (id int); insert into app.line select 1")
    refused = move.run("start", accept=[3])
    assert "app.line" in refused.err
    assert new.value(OURS) == old.value(OURS) == 0
    same = Move(cascade, old.dsn, old.dsn).run("check", accept=[2])
    assert "same database" in same.err
    assert "next: to migrate: londiste migrate check, then" in move.run("status").err


def _do_what_is_asked_for(move: Move, old: Database, new: Database) -> None:
    """As an administrator: what ``check`` says, until it finds nothing critical."""
    found = move.json("check", accept=[2])["findings"]
    remedies = [one for one in found if one["kind"] in ("roles", "replica")]
    assert len(remedies) == 4
    for one in remedies:
        _, _, statements = one["do"].partition(": ")
        (old if "the old" in one["what"] else new).execute(statements)
    assert move.json("check", accept=[0, 1])["schema"] == "pg_dump"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("versions", [(14, 18), (18, 14)])
def test_the_owner_of_a_database_on_14_moves_it_and_goes_back(
    versions: tuple[int, int], cascade: Cascade, new_cluster: Callable[..., Cluster]
) -> None:
    for version in versions:
        if version not in available_versions():
            pytest.skip(f"no PostgreSQL {version} (LONDISTE_PGBIN)")
    old, new = (
        cascade.make_database(on=new_cluster(name, version=version))
        for name, version in zip(("from", "to"), versions, strict=True)
    )
    dsns = [relocation.owner(database) for database in (old, new)]
    move = Move(cascade, dsns[0], dsns[1])
    with psycopg.connect(dsns[0]) as conn:
        conn.execute("create table public.t (id serial primary key, a text)")
        conn.execute("insert into t (a) select 'x' from generate_series(1, 100)")
    administrator = dict(zip(versions, (old, new), strict=True))
    for version, database in administrator.items():
        word = "the old" if database is old else "the new"
        # What check names, one after the other, until it finds nothing critical there.
        for kind in ("roles", "replica"):
            found = move.json("check", accept=[2])["findings"]
            (one,) = [f for f in found if f["kind"] == kind and word in f["what"]]
            first, _, statements = one["do"].partition(": ")
            if first.startswith("londiste install"):
                assert version == 14
                cascade.londiste(None, "install", "--db", dsns[database is new], seconds=300)
            for statement in statements.split(";"):
                database.execute(statement)
    daemon = move.start()
    move.wait_in_step(new, 1, 300, daemon)
    _refused_without_the_right(move, administrator[14], old)
    for to, by in (("switch", new), ("back", old)):
        move.run(to, "--block", "60")
        by.execute("insert into t (a) values (%s)", to)
        assert move.json("verify")["equal"]
    oracles.assert_same_rows(old, new, ["public.t"])
    move.run("finish", "--abandon")
    assert daemon.wait() == 0, daemon.said()
    new.execute("insert into t (a) values ('nothing refuses any more')")


def _refused_without_the_right(move: Move, on14: Database, old: Database) -> None:
    """A switch whose old side could not follow is refused before anything is closed."""
    if on14 is not old:
        return
    role = f'"owner_of_{old.name}"'
    old.execute(f"revoke londiste_writer from {role}")
    refused = move.run("switch", accept=[2])
    assert f"grant londiste_writer to {role}" in refused.err
    assert "nothing was changed" in refused.err
    old.execute("insert into t (a) values ('goes on')")
    assert move.json("check", accept=[2])["findings"][0]["kind"] == "replica"
    old.execute(f"grant londiste_writer to {role}")


@pytest.mark.slow
@pytest.mark.timeout(900 + 120 * relocation.scale())
@pytest.mark.parametrize("who", ["superuser", "owner"])
def test_chinook_and_a_bank_are_upgraded_behind_a_proxy_and_go_back(
    who: str, cascade: Cascade, new_cluster: Callable[..., Cluster]
) -> None:
    script = shared_file("chinook.sql")
    if script is None:
        pytest.skip("no ../shared/data/chinook.sql beside the repository")
    oldest = 15 if 15 in available_versions() else 16
    old = cascade.make_database(on=new_cluster("from", version=oldest, port=True))
    new = cascade.make_database(on=new_cluster("to", version=18, port=True))
    dsns = [relocation.owner(d) if who == "owner" else d.dsn for d in (old, new)]
    move = Move(cascade, dsns[0], dsns[1])
    with psycopg.connect(dsns[0]) as conn:
        conn.execute(Path(script).read_bytes())
        conn.execute(relocation.SCHEMA.encode())
    work = relocation.make_bank(dsns[0], find_binaries(oldest).bindir)
    tables = [
        f"{schema}.{name}"
        for schema, name in old.execute(
            "select schemaname, tablename from pg_tables where schemaname in ('app', 'public')"
        )
    ]
    assert set(tables) >= {*relocation.BANK_TABLES, *relocation.TABLES, "public.track"}
    if who == "owner":
        _do_what_is_asked_for(move, old, new)
    proxy = Proxy(dsns[0])
    daemon = move.start()
    places = [proxy.dsn(dsns[0])]
    with Application(places, work) as application:
        move.wait_in_step(new, len(tables), 300 + 60 * relocation.scale(), daemon)
        application.wait(50)
        assert move.json("verify")["equal"]
        # Killed behind every single step, and given again.
        move.run("switch", accept=[-9], LONDISTE_CRASH="plan.after-step:2")
        refused = move.run("back", accept=[3]).err
        assert "is under way" in refused
        assert "hint: finish it: londiste migrate switch; or undo it: " in refused
        # A busy machine may need long for the last tick.
        assert move.to_the_end("switch", "--block", "60", steps=1) >= 10
        places[0] = proxy.dsn(dsns[1])
        application.follow(places)
        proxy.move(dsns[1])
        application.wait(50)
        assert move.json("status")["phase"] == "switched"
        application.pause = 0.0
        move.run("back", "--block", "60")
        application.follow([proxy.dsn(dsns[0])])
        proxy.move(dsns[0])
        application.wait(50)
        print(f"CASE back of a bank of scale {relocation.scale()}: {application.pause:.1f} s")
        confirmed = application.stop()
    proxy.close()
    application.assert_numbers_go_up()
    answer = move.json("verify")
    assert answer["equal"]
    assert len(answer["tables"]) == len(tables)
    oracles.assert_same_rows(old, new, tables)
    for database in (old, new):
        for table in ("written", "pgbench_history"):
            assert database.value(f"select count(*) from {table}") == confirmed
    _assert_no_password(cascade, old, dsns)
    assert move.to_the_end("finish", "--abandon", steps=1) >= 3
    assert daemon.wait() == 0, daemon.said()
    for database in (old, new):
        assert database.value(OURS) == 0
        assert database.value(CAPTURES) == 1


def _assert_no_password(cascade: Cascade, database: Database, dsns: list[str]) -> None:
    """Not in a log, not among the arguments of a process, not on a node."""
    said = [
        cascade.processes.everything_said(),
        *cascade.processes.living().values(),
        *(text for (text,) in database.execute("select node_location from pgq_node.node_location")),
    ]
    assert len(said) > 4
    for dsn in dsns:
        password = str(conninfo.conninfo_to_dict(dsn)["password"])
        assert not [text for text in said if password in text]
