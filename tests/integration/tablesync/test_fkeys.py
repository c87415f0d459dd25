"""``londiste fkeys`` lists dropped foreign keys with the reason, and restores them on request."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from londiste.orchestration.connections import Connections
from londiste.replication import sqlapi
from londiste.replication.commands.fkeys import KeyFacts, judge, plan_end
from londiste.replication.model import encode_attrs
from londiste.replication.worker.fkey_validator import ForeignKeys
from tests.fixtures.cascade import CommandLine, Node, Nodes
from tests.support.hints import plain
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.waiting import wait_for

SCHEMA = """
create table a (id int primary key, "n n" int unique);
create table b (id int primary key, a int, constraint "B's a" foreign key (a) references a ("n n"));
create table other (id int primary key, b int references b);
"""


@pytest.fixture
@kept_nodes
def leaf(nodes_of: Nodes, londiste: CommandLine) -> Node:
    """Two tables in step, a third that is not replicated."""
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for node in (root, leaf):
        node.db.execute(SCHEMA)
    assert londiste(root.db, "add-table", "a", "b").code == 0
    assert londiste(leaf.db, "add-table", "a", "b", "--expect-sync").code == 0
    return leaf


def take_off(leaf: Node, table: str, key: str) -> None:
    assert leaf.db.value("select londiste.drop_table_fkey(%s, %s)", table, key) == 1


def states(leaf: Node, londiste: CommandLine, *names: str) -> dict[str, dict[str, Any]]:
    answer = londiste(leaf.db, "fkeys", "--json", *names)
    assert answer.code == 0, answer.err
    return {row["key"]: row for row in answer.json["foreign_keys"]}


def test_active_keys_and_those_that_wait_are_shown(leaf: Node, londiste: CommandLine) -> None:
    assert {key: row["state"] for key, row in states(leaf, londiste).items()} == {
        "B's a": "active",
        "other_b_fkey": "active",
    }
    take_off(leaf, "public.b", "B's a")
    row = states(leaf, londiste, "a")["B's a"]
    assert (row["state"], row["why"]) == ("pending", "the worker restores it next")
    leaf.db.execute(
        "update londiste.table_info set merge_state = 'in-copy' where table_name ~ 'a$'"
    )
    row = states(leaf, londiste)["B's a"]
    assert row["why"] == "table public.a is in-copy"
    answer = londiste(leaf.db, "fkeys", "--restore")
    assert answer.code == 0
    assert "table public.a is in-copy, skipped" in answer.err
    assert states(leaf, londiste)["B's a"]["state"] == "pending"
    assert londiste(leaf.db, "fkeys", "nope").code == 2


def test_a_key_without_replication_is_named_kept_and_made_on_request(
    leaf: Node, londiste: CommandLine
) -> None:
    take_off(leaf, "public.b", "B's a")
    answer = londiste(leaf.db, "remove-table", "a")
    assert answer.code == 0
    assert "table public.b: foreign key B's a was dropped for a copy" in answer.err
    assert "londiste fkeys --restore public.b" in answer.err
    row = states(leaf, londiste)["B's a"]
    assert "public.a not replicated here" in row["why"]
    leaf.db.execute(
        "set session_replication_role = replica; insert into b values (1, 7), (2, null)"
    )

    answer = londiste(leaf.db, "fkeys", "--restore", "--dry-run")
    assert answer.code == 0
    assert "validate foreign key B's a" in answer.out
    assert states(leaf, londiste)["B's a"]["state"] == "pending"

    answer = londiste(leaf.db, "fkeys", "--restore")
    assert answer.code == 3
    assert "enforced for new rows; 1 row refers to no row of table public.a\n" in answer.err
    assert '"a": 7' not in answer.err
    assert states(leaf, londiste)["B's a"]["state"] == "unchecked"
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        leaf.db.execute("alter table b disable trigger user; insert into b values (3, 8)")

    leaf.db.execute("insert into a values (1, 7)")
    assert londiste(leaf.db, "fkeys", "--restore").code == 0
    assert states(leaf, londiste)["B's a"]["state"] == "active"
    assert leaf.db.value("select count(*) from londiste.pending_fkeys") == 0
    assert londiste(leaf.db, "fkeys", "--restore", "--dry-run").out == "nothing to do\n"


def test_a_key_that_rows_violate_stops_no_other_and_the_hint_can_be_followed(
    leaf: Node, londiste: CommandLine
) -> None:
    leaf.db.execute(
        "create table c (id int primary key, b int references b);"
        "create table d (a int references a); alter table a disable trigger user;"
        "insert into a values (1, 7)"
    )
    for table, key in (("b", "B's a"), ("c", "c_b_fkey"), ("d", "d_a_fkey")):
        take_off(leaf, f"public.{table}", key)
    leaf.db.execute(
        "set session_replication_role = replica;"
        "insert into b values (1, 8); insert into c values (1, 9); insert into d values (1)"
    )
    answer = londiste(leaf.db, "fkeys", "--restore")
    assert answer.code == 3
    assert {key: row["state"] for key, row in states(leaf, londiste).items()} == {
        "B's a": "unchecked",
        "c_b_fkey": "unchecked",
        "d_a_fkey": "active",
        "other_b_fkey": "active",
    }
    assert "rows violate 2 foreign keys: B's a of table public.b, c_b_fkey of table public.c" in (
        answer.err
    )
    assert '"a": 8' not in answer.err and "(8)" not in answer.err
    assert "c_b_fkey: the key exists and is enforced for new rows; 1 row refers to no row of" in (
        answer.err
    )
    hint = answer.err.partition("hint: ")[2]
    assert "copy the table again: londiste resync public.b;" in hint
    select = hint.rpartition("which this statement finds: ")[2].partition(";")[0]
    assert leaf.db.execute(select) == [('{"b": 9}',)]
    alone = londiste(leaf.db, "fkeys", "--restore", "c").err
    assert "error: table public.c: rows violate foreign key c_b_fkey\n" in alone
    assert "resync" not in alone


def test_a_key_to_a_table_in_partitions_is_told_once_and_not_tried(
    leaf: Node, londiste: CommandLine, caplog: pytest.LogCaptureFixture
) -> None:
    take_off(leaf, "public.b", "B's a")
    leaf.db.execute("create table a_2024 () inherits (a)")
    leaf.db.execute(
        "update londiste.table_info set table_attrs = %s where table_name = 'public.a'",
        encode_attrs({"handler": "yearly_field(part_field=n n)"}),
    )
    keys = ForeignKeys(leaf.dsn, "q", lock_timeout=10)
    with leaf.connect(autocommit=True, replica=True) as conn:
        known = sqlapi.get_table_list(conn, "q")
        # The worker looks again when the set of tables in sync is another one.
        for some in (known, known[:1], known):
            keys.look_after(conn, some)
    assert not keys.busy
    (said,) = [r.getMessage() for r in caplog.records if "B's a" in r.getMessage()]
    row = states(leaf, londiste)["B's a"]
    assert row["state"] == "pending"
    assert row["why"] in said and "the rows of table public.a are in partitions" in row["why"]
    assert row["do"] in plain(londiste(leaf.db, "check").out)
    done = londiste(leaf.db, "fkeys", "--restore")
    assert done.code == 0 and row["why"] in done.err
    with Connections(name="tests") as sites:
        assert plan_end(sites, "leaf", leaf.dsn, "q") == []
    leaf.db.execute(row["do"].rpartition(": ")[2])
    assert "B's a" not in states(leaf, londiste)


def test_a_locked_table_is_waited_for_within_the_limit(leaf: Node, londiste: CommandLine) -> None:
    take_off(leaf, "public.b", "B's a")
    with psycopg.connect(leaf.dsn) as writer:
        writer.execute("lock table a in row exclusive mode")
        answer = londiste(leaf.db, "--set", "lock_timeout=0.2", "fkeys", "--restore")
        assert answer.code == 6
        assert "stays locked" in answer.err
    assert londiste(leaf.db, "fkeys", "--restore").code == 0
    assert states(leaf, londiste)["B's a"]["state"] == "active"


def test_a_check_that_runs_is_shown_with_its_time(leaf: Node, londiste: CommandLine) -> None:
    take_off(leaf, "public.b", "B's a")
    leaf.db.execute(
        str(leaf.db.value("select londiste.restore_table_fkey('public.b', 'B''s a', true)"))
    )
    assert states(leaf, londiste)["B's a"]["state"] == "unchecked"
    with psycopg.connect(leaf.dsn) as holder, leaf.connect() as checker:
        holder.execute("lock table b in share mode")
        with checker.pipeline():
            checker.execute('alter table public.b validate constraint "B\'s a"')
            checker.pgconn.send_flush_request()
            checker.pgconn.flush()
            wait_for(
                lambda: states(leaf, londiste)["B's a"]["state"] == "checking",
                what="the check is seen",
            )
            assert states(leaf, londiste)["B's a"]["since"] is not None
            holder.rollback()


def test_every_state_says_why_and_what_helps() -> None:
    fact = KeyFacts("s.a", "s.b", "k")
    assert judge(fact).state == "active"
    late = KeyFacts("s.a", "s.b", "k", valid=False, checking_since=datetime(2025, 1, 1, tzinfo=UTC))
    assert judge(late).state == "checking"
    assert judge(KeyFacts("s.a", "s.b", "k", valid=False)).state == "not valid"
    assert judge(KeyFacts("s.a", "s.b", "k", valid=False, enforced=False)).state == "not enforced"
    gone = judge(KeyFacts("s.a", "s.b", "k", there=False, valid=False, pending=True,
                          to_exists=False, to_replicated=False))  # fmt: skip
    assert (gone.why, gone.by_hand) == ("table s.b does not exist", False)
    parts = judge(KeyFacts("s.a", "s.b", "k'", there=False, valid=False, pending=True,
                           to_in_children=True))  # fmt: skip
    assert (parts.state, parts.by_hand) == ("pending", False)
    assert parts.do.endswith("where from_table = 's.a' and fkey_name = 'k'''")
    made = KeyFacts("s.a", "s.b", "k", valid=False, to_in_children=True)
    assert judge(made).state == "not valid"
    assert judge(made).do.endswith(': alter table "s"."a" drop constraint "k"')
    alone = judge(KeyFacts("s.a", "s.b", "k", there=False, valid=False, pending=True,
                           to_replicated=False))  # fmt: skip
    assert alone.by_hand
    assert alone.do == "londiste fkeys --restore s.a"
