"""Events that halt a node: stored, listed, skipped or retried by decision of the operator."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from londiste.cascade.model import NodeType
from londiste.db.names import escaped, quote
from tests.fixtures.line import Command, Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes

SCHEMA = """
create table t (id int primary key, v text, n int not null default 0);
create table other (id int primary key);
"""
REPLICA = "set session_replication_role = replica; "


@pytest.fixture(params=["folded", pytest.param("job", marks=pytest.mark.slow)])
@kept_nodes
def nodes(request: pytest.FixtureRequest, line: Line) -> tuple[LineNode, LineNode]:
    """A root with 30 rows and a leaf that has them, too; of batches of two events a job is made."""
    large = {"parallel_apply_min_events": 2} if request.param == "job" else {}
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA, max_retry_delay=600.0, **large)
    line.add(root, "t", "other")
    line.tick()
    line.once(leaf)
    line.add(leaf, "t", "other")
    root.database.execute("insert into t select i, 'v' || i, i from generate_series(1, 30) i")
    line.tick()
    line.once(leaf)
    return root, leaf


def rows(node: LineNode) -> list[Any]:
    return node.database.execute("select t::text from t order by id")


def shown(line: Line, node: LineNode, *args: str) -> list[dict[str, Any]]:
    done = line.here(node, "events", "show", "--json", *args)
    assert done.code == 0, str(done)
    found: list[dict[str, Any]] = json.loads(done.out)["events"]
    return found


def test_one_row_of_a_packed_event_is_left_out_also_when_the_worker_is_killed(
    line: Line, nodes: tuple[LineNode, LineNode]
) -> None:
    root, leaf = nodes
    leaf.database.execute(REPLICA + "delete from t where id = 25")
    root.database.execute(
        "begin; update t set v = 'new'; update t set n = 100 where id = 3;"
        "insert into other values (1); commit"
    )
    before, last = line.position(leaf), line.tick()
    for _ in range(2):
        assert line.here(leaf, "worker", "--once").code == 5
    (found,) = shown(line, leaf)
    assert found["kind"] == "missing"
    assert found["times"] == 2
    assert found["row"] == {"id": "25", "v": "new", "n": "25"}
    assert found["row_here"] is None
    assert found["statement"].startswith("update only")
    assert found["event"].count(":") == 1, "it is a row of a packed event"
    number = found["event"].partition(":")[0]
    call = f"londiste -c {leaf.config} events"
    assert f"{call} skip {found['event']}" in line.here(leaf, "events", "show").out
    # Not the whole event, and nothing that does not halt.
    for wrong in (number, f"{number}:1", "999999", "nonsense"):
        done = line.here(leaf, "events", "skip", wrong)
        assert done.code == 2, str(done)
    assert line.here(leaf, "events", "skip", found["event"], "--dry-run").code == 0
    assert shown(line, leaf)[0]["state"] == "halted"
    done = line.here(leaf, "events", "skip", found["event"], "--reason", "deleted by hand")
    assert done.code == 0, str(done)
    worker = line.start(leaf, LONDISTE_CRASH="worker.before-commit")
    line.wait(lambda: not worker.running(), "the worker to die between decision and commit")
    assert line.position(leaf) == before
    assert shown(line, leaf)[0]["state"] == "skip"
    line.once(leaf)
    assert line.position(leaf) == last
    assert rows(leaf) == [row for row in rows(root) if not row[0].startswith("(25,")]
    assert leaf.database.execute("select id from other") == [(1,)]
    assert shown(line, leaf) == []
    (past,) = shown(line, leaf, "--all")
    assert past["state"] == "skipped"
    assert past["reason"] == "deleted by hand"
    assert "@" in past["decided_by"]
    # What comes later for the same row halts again, and is a finding of its own.
    root.database.execute("update t set v = 'newer' where id = 25")
    line.tick()
    assert line.here(leaf, "worker", "--once").code == 5
    assert [one["state"] for one in shown(line, leaf, "--all")] == ["skipped", "halted"]


def test_an_event_of_a_key_is_left_out_and_the_others_of_the_key_are_not(
    line: Line, nodes: tuple[LineNode, LineNode]
) -> None:
    root, leaf = nodes
    leaf.database.execute(REPLICA + "insert into t values (50, 'mine', 5)")
    root.database.execute("insert into t values (50, 'first'); update t set n = 7 where id = 50")
    root.database.execute("update t set v = 'last' where id = 50; delete from t where id = 1")
    line.tick()
    assert line.here(leaf, "worker", "--once").code == 5
    (found,) = shown(line, leaf)
    assert found["kind"] == "exists"
    assert found["row_here"] == {"id": 50, "v": "mine", "n": 5}
    assert found["op"] == "insert"
    assert line.here(leaf, "events", "skip", found["event"]).code == 0
    line.once(leaf)
    assert rows(leaf) == rows(root)


def test_retry_and_policies_wake_a_worker_that_waits(
    line: Line, nodes: tuple[LineNode, LineNode], tmp_path: Any
) -> None:
    root, leaf = nodes
    leaf.database.execute(REPLICA + "delete from t where id in (4, 5, 6)")
    worker = line.start(leaf)
    root.database.execute("begin; update t set v = 'x' where id < 10; commit")
    last = line.tick()
    # The pauses grow longer than this test may take.
    line.wait(lambda: shown(line, leaf) and shown(line, leaf)[0]["times"] >= 2, "the finding")
    out = tmp_path / "event.sql"
    assert line.here(leaf, "events", "export", str(out)).code == 0
    assert 'update "public"."t" set "v" = \'x\'' in out.read_text()
    assert out.stat().st_mode & 0o077 == 0
    assert line.here(leaf, "events", "export", str(out)).code == 2
    leaf.database.execute(REPLICA + "insert into t values (4, 'v4', 4), (5, 'v5', 5)")
    assert line.here(leaf, "events", "retry").code == 0
    line.wait(lambda: shown(line, leaf)[0]["row"]["id"] == "6", "the next row that is missing")
    done = line.here(leaf, "change-policy", "t", "apply_remote")
    assert done.code == 0, str(done)
    line.wait_position(leaf, last)
    assert rows(leaf) == rows(root)
    # Logged after the commit.
    counted_rows = "1 times update of a row that does not exist: applied"
    line.wait(lambda: counted_rows in worker.said(), "the line that counts them")
    done = line.here(leaf, "events", "conflicts", "--json")
    (counted,) = json.loads(done.out)["conflicts"]
    assert (counted["kind"], counted["policy"], counted["times"]) == ("missing", "overwrite", 1)
    assert {one["state"] for one in shown(line, leaf, "--all")} == {"passed"}
    assert worker.stop() == 0


def test_a_policy_given_with_the_table_never_lets_it_halt(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    line.add(root, "t")
    line.tick()
    line.once(leaf)
    done = line.here(leaf, "add-table", "t", "--expect-sync", "--on-error", "log")
    assert done.code == 0, str(done)
    leaf.database.execute(REPLICA + "insert into t values (1, 'mine', 5)")
    root.database.execute("insert into t select i, 'theirs', 1 from generate_series(1, 3) i")
    line.tick()
    line.once(leaf)
    assert rows(leaf) == [("(1,mine,5)",), ("(2,theirs,1)",), ("(3,theirs,1)",)]
    done = line.here(leaf, "events", "conflicts", "--rows", "--json")
    (left_out,) = json.loads(done.out)["rows"]
    assert json.loads(left_out["image"]) == {"id": "1", "v": "theirs", "n": "1"}
    assert json.loads(left_out["here"]) == {"id": 1, "v": "mine", "n": 5}
    assert line.here(root, "change-policy", "t", "keep").code == 3
    assert line.here(leaf, "change-policy", "t", "nonsense").code == 2


HOSTILE = [
    "we\"ird\nx -- \\ $(t); 'x",
    "é" * 31 + "x",
]


def test_rows_of_a_packed_event_are_left_out_one_by_one_whatever_the_table_is_called(
    line: Line, command: Command, tmp_path: Path
) -> None:
    schema = "".join(
        f'create table {quote(name)} ("k%s" int primary key, "v\n\'" text);' for name in HOSTILE
    )
    root = line.node("root", NodeType.ROOT, schema=schema)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=schema)
    line.add(root, *HOSTILE)
    line.add(leaf, *HOSTILE)
    for name in HOSTILE:
        root.database.execute(
            f"insert into {quote(name)} select i, 'v' from generate_series(1, 30) i"
        )
    line.tick()
    line.once(leaf)

    def events(*args: str, code: int = 0) -> str:
        done = command(leaf, "events", *args)
        assert done.code == code, str(done)
        return done.out if not done.err or args[0] == "show" else done.err

    for name in HOSTILE:
        leaf.database.execute(REPLICA + f'delete from {quote(name)} where "k%s" in (24, 26)')
        root.database.execute(f"update {quote(name)} set \"v\n'\" = 'new'")
        line.tick()
        for key in ("24", "26"):
            assert command(leaf, "worker", "--once").code == 5
            halted = [
                e for e in json.loads(events("show", "--json"))["events"] if e["state"] == "halted"
            ]
            (found,) = halted
            assert (found["table"], found["row"]["k%s"]) == (f"public.{name}", key)
            assert found["event"].count(":") == 1, "it is a row of a packed event"
            # What is to be typed means this table, in a shell, and is one line.
            (typed,) = [
                c["command"] for c in found["choices"] if c["command"].startswith("londiste resync")
            ]
            words = subprocess.run(
                ["bash", "-c", typed.replace("londiste resync", "printf %s", 1)],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            assert (words.stdout, typed.count("\n")) == (escaped(f"public.{name}"), 0)
            assert command(leaf, "resync", words.stdout, "--dry-run").code == 0
            shown_text = events("show")
            assert f"events skip {found['event']}" in shown_text
            lines = [one for one in shown_text.splitlines() if one]
            assert all(one.startswith(("event ", "  ")) for one in lines), shown_text
            path = tmp_path / f"{key}-{HOSTILE.index(name)}.sql"
            events("export", str(path), found["event"])
            with psycopg.connect(leaf.database.dsn) as conn:
                assert conn.execute(path.read_bytes()).rowcount == 0
            events("skip", found["event"], "--reason", "one")
            # Decided once; the second time says so, and changes neither reason nor time.
            assert "is to be left out already" in events("skip", found["event"], "--reason", "two")
            assert "left out" in events("skip", found["event"], found["event"])
            number = found["event"].partition(":")[0]
            assert "failed rows of event" in events("skip", number, code=2)
            assert "not a failed event" in events("skip", f"{number}:1", code=2)
        line.once(leaf)
        rows_of = f'select "k%s" from {quote(name)} where "v\n\'" = \'new\' order by 1'
        assert [k for (k,) in leaf.database.execute(rows_of)] == [
            n for n in range(1, 31) if n not in (24, 26)
        ]
        past = json.loads(events("show", "--all", "--json"))["events"][-2:]
        assert {(e["state"], e["reason"]) for e in past} == {("skipped", "one")}
        assert "not a failed event" in events("skip", past[0]["event"], code=2)


ALWAYS = {
    "trigger": "create function lose() returns trigger language plpgsql"
    " as 'begin return null; end'; create trigger odd before insert on t for each row"
    " when (new.id = 40) execute function lose(); alter table t enable always trigger odd",
    "rule": "create rule odd as on insert to t where new.id = 40 do instead nothing;"
    " alter table t enable always rule odd",
}


@pytest.mark.parametrize("kind", ALWAYS)
def test_a_row_that_the_node_does_not_keep_is_refused(
    line: Line, nodes: tuple[LineNode, LineNode], kind: str
) -> None:
    root, leaf = nodes
    leaf.database.execute(ALWAYS[kind])
    root.database.execute("insert into t values (39, 'a'), (40, 'b'), (41, 'c')")
    line.tick()
    done = line.here(leaf, "worker", "--once")
    assert done.code == 5, str(done)
    assert "did not keep the row: it has a trigger or rule that fires always" in done.err
    assert "resync" not in done.err and "matches the key" not in done.err
    (found,) = shown(line, leaf)
    assert (found["kind"], found["row"]["id"]) == ("refused", "40")
    said = json.loads(line.here(leaf, "check", "--json").out)["findings"]
    (warned,) = [one for one in said if one["kind"] == {"trigger": "always"}.get(kind, kind)]
    statement = f'alter table "public"."t" enable {kind} "odd"'
    assert warned["do"].partition(";")[0] == statement
    leaf.database.execute(statement)
    line.once(leaf)
    assert leaf.database.value("select count(*) from t") == 33


def test_commands_of_hints_have_the_name_in_the_queue(
    line: Line, nodes: tuple[LineNode, LineNode]
) -> None:
    root, leaf = nodes
    leaf.database.execute("create table mine (id int primary key); insert into mine values (1)")
    assert line.here(leaf, "remove-table", "other").code == 0
    args = ("add-table", "other", "--dest-table", "mine", "--expect-sync")
    assert line.here(leaf, *args).code == 0
    root.database.execute("insert into other values (1)")
    line.tick()
    done = line.here(leaf, "worker", "--once")
    assert done.code == 5, str(done)
    assert "resync public.other" in done.err and "compare public.other" in done.err
    leaf.database.execute("alter table mine rename id to own")
    assert "columns public.other --add" in line.here(leaf, "worker", "--once").err
    leaf.database.execute("drop table mine")
    assert "remove-table public.other" in line.here(leaf, "worker", "--once").err


def test_a_table_without_identity_in_a_publication_has_the_statement_that_helps(
    line: Line, nodes: tuple[LineNode, LineNode]
) -> None:
    root, leaf = nodes
    leaf.database.execute("alter table t drop constraint t_pkey; create unique index on t (id)")
    leaf.database.execute("create publication whole for all tables")
    root.database.execute("delete from t where id = 3")
    line.tick()
    done = line.here(leaf, "worker", "--once")
    assert done.code == 5
    statement = 'alter table "public"."t" replica identity full'
    assert f"hint: a publication contains the table: {statement};" in done.err
    leaf.database.execute(statement)
    assert line.here(leaf, "worker", "--once").code == 0
    assert leaf.database.value("select count(*) from t where id = 3") == 0
