"""Adding and removing tables from the command line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.cli import cli
from londiste.cli.errors import run as run_command
from londiste.db.names import TableName
from londiste.replication import sqlapi as tables
from londiste.replication.commands.create_table import statements
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes
from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for


@pytest.fixture
def root(nodes_of: Nodes) -> Node:
    node = nodes_of.root()
    node.db.execute(
        """
        create table one (id int primary key, v text);
        create table two (id int primary key);
        create schema "S x";
        create table "S x"."T.y" (a int, b int, primary key (b, a));
        """
    )
    return node


@pytest.fixture
def leaf(root: Node, nodes_of: Nodes) -> Node:
    return nodes_of.below(root, "leaf")


def local(node: Node) -> dict[str, str | None]:
    with psycopg.connect(node.dsn) as conn:
        rows = conn.execute(
            "select table_name, merge_state from londiste.get_table_list('q') where local"
        )
        return dict(rows.fetchall())


def test_patterns_add_what_they_match(root: Node, londiste: CommandLine) -> None:
    assert londiste(root.db, "add-table", "?n*").code == 0
    assert local(root) == {"public.one": "ok"}
    assert londiste(root.db, "add-table", "S x.*", "t*").code == 0
    assert set(local(root)) == {"public.one", "S x.T.y", "public.two"}


def test_everything_is_added_at_once(root: Node, leaf: Node, londiste: CommandLine) -> None:
    assert londiste(root.db, "add-table", "--all").code == 0
    assert londiste(leaf.db, "add-table", "--all", "--create").code == 0
    assert local(leaf) == {"public.one": None, "public.two": None, "S x.T.y": None}
    assert londiste(root.db, "add-table", "--all").code == 0
    assert londiste(leaf.db, "add-table", "--all").code == 0
    answer = londiste(leaf.db, "tables", "--json")
    assert [row["state"] for row in answer.json] == [None, None, None]


def test_one_unknown_table_and_nothing_is_done(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    for node in (root, leaf):
        answer = londiste(node.db, "add-table", "one", "nope", "two")
        assert answer.code == 2
        assert "nothing was added" in answer.err
        assert local(node) == {}
    assert root.db.value("select count(*) from pg_trigger where tgname like '\\_londiste%'") == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("quick", "unlogged, temporary and system tables"),
        ("pg_catalog.pg_class", "system tables"),
        ("a.b.t", "its schema has a dot in its name"),
        ('"S x".one', "without double quotes"),
        ("empty", "has no columns"),
    ],
)
def test_what_cannot_be_replicated_is_refused_with_the_reason(
    root: Node, londiste: CommandLine, name: str, words: str
) -> None:
    root.db.execute(
        'create unlogged table quick (id int primary key); create schema "a.b";'
        ' create table "a.b".t (id int primary key); create table empty ()'
    )
    answer = londiste(root.db, "add-table", "one", name)
    assert answer.code == 2
    assert words in answer.err
    assert local(root) == {}


def test_a_schema_that_has_no_name_in_the_queue_stops_no_pattern(
    root: Node, londiste: CommandLine
) -> None:
    root.db.execute('create schema "a.b"; create table "a.b".t (id int primary key)')
    assert londiste(root.db, "add-table", "*.*").code == 0
    assert set(local(root)) == {"public.one", "public.two", "S x.T.y"}


def test_a_table_that_got_another_name_can_be_removed(root: Node, londiste: CommandLine) -> None:
    londiste(root.db, "add-table", "one")
    root.db.execute("alter table one rename to first")
    assert londiste(root.db, "remove-table", "one").code == 0
    assert local(root) == {}
    assert root.db.value("select count(*) from pg_trigger where tgname like '\\_londiste%'") == 0
    assert londiste(root.db, "add-table", "first").code == 0
    root.db.execute("insert into first values (1)")
    events = root.db.execute("select ev_extra1 from pgq.event_template where ev_type like '{%'")
    assert events == [("public.first",)]


def test_added_before_is_said_and_fine(root: Node, londiste: CommandLine) -> None:
    londiste(root.db, "add-table", "one")
    answer = londiste(root.db, "add-table", "one", "two")
    assert answer.code == 0
    assert "public.one: already processed" in answer.err
    assert set(local(root)) == {"public.one", "public.two"}


def test_explaining_adds_nothing(root: Node, leaf: Node, londiste: CommandLine) -> None:
    answer = londiste(root.db, "add-table", "one", "--explain")
    assert answer.out == "1. root: add table public.one\n"
    assert local(root) == {}
    londiste(root.db, "add-table", "one")
    answer = londiste(leaf.db, "add-table", "one", "--create", "--explain", "--json")
    assert [line.split(":")[0] for line in answer.json] == ["leaf", "leaf"]
    assert leaf.db.value("select to_regclass('one')") is None
    assert leaf.db.value("select count(*) from londiste.table_info") == 0


def test_a_table_without_key_is_refused_with_ways_out(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    root.db.execute("create table log (at timestamptz, line text)")
    answer = londiste(root.db, "add-table", "one", "log")
    assert answer.code == 2
    assert "no primary key" in answer.err
    assert "--insert-only" in answer.err
    assert local(root) == {}
    assert londiste(root.db, "add-table", "one", "log", "--insert-only").code == 0
    attrs = {row["table"]: row["attributes"] for row in londiste(root.db, "tables", "--json").json}
    assert attrs == {"public.one": {}, "public.log": {"insert_only": "1"}}
    # What the provider admits, the leaf takes.
    assert londiste(leaf.db, "add-table", "log", "--create").code == 0
    assert local(leaf) == {"public.log": None}


def test_columns_that_identify_a_row_are_a_key(root: Node, londiste: CommandLine) -> None:
    root.db.execute("create table loose (a int not null, v text)")
    assert londiste(root.db, "add-table", "loose", "--trigger-arg", "pkey=a").code == 0
    root.db.execute("insert into loose values (1, 'x'); update loose set v = 'y'")
    types = root.db.execute(
        "select ev_type from pgq.event_template where ev_extra1 = 'public.loose'"
    )
    assert all('"pkey":["a"]' in row[0] for row in types)
    assert len(types) == 2


def test_what_is_no_table_is_named_as_what_it_is(root: Node, londiste: CommandLine) -> None:
    root.db.execute("create view v as select 1 as x; create materialized view m as select 1 as x")
    assert "is a view" in londiste(root.db, "add-table", "v").err
    answer = londiste(root.db, "add-table", "m")
    assert "is a materialized view" in answer.err
    assert "the tables that it reads from" in answer.err


def test_a_leaf_adds_only_what_its_provider_has(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    leaf.db.execute("create table one (id int primary key, v text)")
    answer = londiste(leaf.db, "add-table", "one")
    assert answer.code == 2
    assert "table public.one does not exist" in answer.err or "not part of the queue" in answer.err
    londiste(root.db, "add-table", "one", "two")
    answer = londiste(leaf.db, "add-table", "one", "two")
    assert answer.code == 2
    assert "--create" in answer.err
    assert local(leaf) == {}
    answer = londiste(leaf.db, "add-table", "one", "two", "--skip-non-existing")
    assert answer.code == 0
    assert "table public.two does not exist" in answer.err
    assert local(leaf) == {"public.one": None}


def test_a_leaf_of_a_branch_needs_the_table_on_the_branch(
    root: Node, nodes_of: Nodes, londiste: CommandLine
) -> None:
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    below = nodes_of.below(branch, "below")
    londiste(root.db, "add-table", "one")
    with branch.connect() as conn:
        tables.global_add_table(conn, QUEUE, TableName("public", "one"))
    answer = londiste(below.db, "add-table", "one", "--create")
    assert answer.code == 3
    assert "node branch does not have table public.one" in answer.err
    below.db.execute("create table one (id int primary key, v text)")
    assert londiste(below.db, "add-table", "one", "--expect-sync").code == 0
    assert local(below) == {"public.one": "ok"}


def test_a_table_gets_another_name_on_the_leaf(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    londiste(root.db, "add-table", "one", "two")
    answer = londiste(leaf.db, "add-table", "one", "two", "--dest-table", "x", "--create")
    assert answer.code == 2
    assert londiste(leaf.db, "add-table", "one", "--dest-table", "New.One", "--create").code == 0
    # The index of its key may have a name that is taken.
    leaf.db.execute("create table two (id int primary key)")
    assert londiste(leaf.db, "add-table", "two", "--dest-table", "two_b", "--create").code == 0
    with leaf.connect() as conn:
        found = [t for t in tables.get_table_list(conn, QUEUE) if t.local]
    assert [(str(t.name), str(t.dest)) for t in found] == [
        ("public.one", "New.One"),
        ("public.two", "public.two_b"),
    ]


def test_a_created_table_has_the_columns_and_key_of_the_provider(root: Node, leaf: Node) -> None:
    root.db.execute(
        """
        create function f() returns int language sql as 'select 1';
        create table rich (
            "Id" bigint generated always as identity,
            code varchar(7) collate "C" not null default 'a''b',
            price numeric(12, 3) default 1.5,
            twice numeric generated always as (price * 2) stored,
            tags text[] default '{}'::text[],
            made timestamptz(3) not null default now(),
            nr serial,
            odd int default f(),
            gone int,
            primary key (code, "Id")
        );
        alter table rich drop column gone;
        """
    )
    with root.connect() as source, leaf.connect() as target:
        table = TableName("public", "rich")
        for statement in statements(source, target, table, table):
            target.execute(statement.encode())
    columns = """
        select column_name, data_type, is_nullable, collation_name, column_default, is_identity,
               generation_expression, numeric_precision, datetime_precision
        from information_schema.columns where table_name = 'rich' order by ordinal_position
    """
    theirs = {row[0]: row for row in root.db.execute(columns)}
    ours = {row[0]: row for row in leaf.db.execute(columns)}
    assert list(ours) == list(theirs)
    for name in set(ours) - {"nr", "odd"}:
        assert ours[name] == theirs[name]
    # Defaults that need something of the other database are left out.
    assert ours["nr"][4] is None
    assert ours["odd"][4] is None
    key = "select pg_get_constraintdef(oid) from pg_constraint where conrelid = 'rich'::regclass"
    assert leaf.db.value(key + " and contype = 'p'") == 'PRIMARY KEY (code, "Id")'


def test_a_missing_type_is_named_and_the_table_is_not_half_made(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    root.db.execute("create type mood as enum ('ok'); create table m (id int primary key, m mood)")
    londiste(root.db, "add-table", "m")
    answer = londiste(leaf.db, "add-table", "m", "--create")
    assert answer.code == 2
    assert "type public.mood does not exist" in answer.err
    assert "--create-full" in answer.err
    assert leaf.db.value("select to_regclass('m')") is None
    assert local(leaf) == {}


def test_wrong_letters_are_named(root: Node, londiste: CommandLine) -> None:
    answer = londiste(root.db, "add-table", "one", "--trigger-flags", "AX")
    assert answer.code == 2
    assert "unknown flag X" in answer.err
    assert londiste(root.db, "add-table", "one", "--trigger-flags", "L").code == 0
    assert londiste(root.db, "add-table").code == 2
    assert londiste(root.db, "add-table", "--all", "one").code == 2


def test_a_long_transaction_ends_the_command_in_time(root: Node, londiste: CommandLine) -> None:
    with psycopg.connect(root.dsn) as writer:
        writer.execute("insert into one values (1, 'x')")
        answer = londiste(root.db, "--set", "lock_timeout=0.3", "add-table", "one")
        assert answer.code == 6
        assert "stays locked" in answer.err
        assert local(root) == {}
    answer = londiste(root.db, "add-table", "one")
    assert answer.code == 0


def test_a_command_waits_for_writers_within_its_limit(root: Node, londiste: CommandLine) -> None:
    with psycopg.connect(root.dsn) as writer:
        writer.execute("insert into one values (1, 'x')")

        def blocked() -> bool:
            waiting = (
                "select count(*) from pg_locks where not granted and relation = 'one'::regclass"
            )
            return bool(root.db.value(waiting))

        def end() -> None:
            wait_for(blocked, what="add-table to wait for the writer")
            writer.commit()

        helper = threading.Thread(target=end)
        helper.start()
        answer = londiste(root.db, "add-table", "one")
        helper.join()
    assert answer.code == 0
    assert local(root) == {"public.one": "ok"}


# -- removing and copying again ----------------------------------------------


def test_a_table_is_removed_on_one_node_or_on_all(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    londiste(root.db, "add-table", "one", "two")
    londiste(leaf.db, "add-table", "--all", "--create")
    answer = londiste(leaf.db, "remove-table", "one", "nope")
    assert answer.code == 2
    assert "nothing was removed" in answer.err
    assert londiste(leaf.db, "remove-table", "one").code == 0
    assert set(local(leaf)) == {"public.two"}
    leaf.db.execute("insert into one values (1, 'free')")
    answer = londiste(root.db, "remove-table", "--all", "--explain")
    assert "from every other node" in answer.out
    assert londiste(root.db, "remove-table", "--all").code == 0
    assert local(root) == {}
    assert londiste(root.db, "remove-table", "one").code == 2


def test_a_removed_copy_leaves_no_consumer_behind(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    londiste(root.db, "add-table", "one")
    londiste(leaf.db, "add-table", "one", "--create")
    name = TableName("public", "one")
    consumer = f"{leaf.worker}.copy.public.one"
    root.db.execute("select pgq.register_consumer('q', %s)", consumer)
    with leaf.connect() as conn:
        nodes.register_consumer(conn, QUEUE, consumer, "root", 1)
        tables.local_set_table_state(conn, QUEUE, name, "1:1:", "catching-up")
    assert londiste(leaf.db, "remove-table", "one").code == 0
    assert root.db.value("select count(*) from pgq.get_consumer_info('q', %s)", consumer) == 0
    assert leaf.db.value("select count(*) from pgq_node.get_consumer_info('q')") == 1


def test_a_table_is_copied_again(root: Node, leaf: Node, londiste: CommandLine) -> None:
    londiste(root.db, "add-table", "one")
    londiste(leaf.db, "add-table", "one", "--create", "--expect-sync")
    assert londiste(root.db, "resync", "one").code == 3
    assert londiste(leaf.db, "resync", "nope").code == 2
    assert londiste(leaf.db, "resync", "one", "--explain").code == 0
    assert local(leaf) == {"public.one": "ok"}
    assert londiste(leaf.db, "resync", "one").code == 0
    assert local(leaf) == {"public.one": None}
    assert londiste(leaf.db, "resync", "one").code == 0


def test_rows_that_stay_are_not_copied_beside_themselves(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    londiste(root.db, "add-table", "one")
    londiste(leaf.db, "add-table", "one", "--create", "--skip-truncate")
    assert londiste(leaf.db, "resync", "one").code == 0, "nothing is here yet"
    with leaf.connect() as conn:
        tables.local_set_table_state(conn, QUEUE, TableName("public", "one"), None, "ok")
    answer = londiste(leaf.db, "resync", "one")
    assert answer.code == 3
    assert "was added with --skip-truncate" in answer.err
    assert "londiste remove-table public.one" in answer.err
    assert local(leaf) == {"public.one": "ok"}


def test_copying_again_keeps_what_has_to_be_put_back(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    londiste(root.db, "add-table", "one")
    londiste(leaf.db, "add-table", "one", "--create")
    with leaf.connect() as conn:
        name = TableName("public", "one")
        tables.local_set_table_state(conn, QUEUE, name, "1:1:", "catching-up")
        tables.local_set_table_struct(conn, QUEUE, name, "select 1")
        assert londiste(leaf.db, "resync", "one").code == 0
        (table,) = tables.get_table_list(conn, QUEUE)
    assert (table.state, table.dropped_ddl, table.snapshot) == ("in-copy", "select 1", None)


def test_waiting_for_tables_has_a_limit_and_a_reason(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    assert londiste(leaf.db, "wait-sync", "--allow-empty").code == 0
    londiste(root.db, "add-table", "one")
    answer = londiste(leaf.db, "add-table", "one", "--create", "--wait-sync", "--timeout", "0.1")
    assert answer.code == 6
    assert "1 tables are not in sync" in answer.err
    assert "0/1 tables in step; public.one waiting" in answer.err
    with leaf.connect() as conn:
        nodes.set_consumer_error(conn, QUEUE, leaf.worker, "disk full")
        answer = londiste(leaf.db, "wait-sync", "--timeout", "0.1")
        assert f"warning: {leaf.worker}: disk full\n" in answer.err
        assert f"detail: {leaf.worker}: disk full\n" in answer.err
        tables.local_set_table_state(conn, QUEUE, TableName("public", "one"), None, "ok")
    assert londiste(leaf.db, "wait-sync", "one", "--json").json == {"tables": 1, "ok": 1}
    assert londiste(leaf.db, "wait-sync", "two").code == 2


def test_sequences_are_added_and_removed(root: Node, leaf: Node, londiste: CommandLine) -> None:
    root.db.execute("create sequence s; create sequence z")
    assert londiste(root.db, "add-seq", "nope").code == 2
    assert londiste(root.db, "add-seq", "s", "--explain").code == 0
    assert londiste(root.db, "add-seq", "--all").code == 0
    assert londiste(leaf.db, "add-seq", "s").code == 2
    leaf.db.execute("create sequence s")
    assert londiste(leaf.db, "add-seq", "s").code == 0
    assert leaf.db.value("select last_value from s") == 30001
    rows = {row["sequence"]: row["local"] for row in londiste(leaf.db, "seqs", "--json").json}
    assert rows == {"public.s": True, "public.z": False}
    assert londiste(leaf.db, "remove-seq", "s").code == 0
    again = londiste(leaf.db, "remove-seq", "s")
    assert (again.code, "already processed" in again.err) == (0, True)
    assert londiste(leaf.db, "remove-seq", "s", "nope").code == 2
    assert londiste(leaf.db, "remove-seq", "s", "nope", "--force").code == 0
    assert londiste(leaf.db, "add-seq", "z").code == 2
    assert londiste(leaf.db, "add-seq", "s", "z", "nope", "--skip-non-existing").code == 0
    rows = {row["sequence"]: row["local"] for row in londiste(leaf.db, "seqs", "--json").json}
    assert rows == {"public.s": True, "public.z": False}


def test_sequences_of_columns_come_and_go_with_their_table(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    made = """
        create table serial (id serial primary key, other bigserial);
        create table "Iden tity" (id int generated always as identity primary key);
        create table bare (id serial primary key);
    """
    root.db.execute(made)
    leaf.db.execute(made)
    names = ["public.serial_id_seq", "public.serial_other_seq"]
    shown = londiste(root.db, "add-table", "serial", "--explain", "--json")
    assert f"with sequences {', '.join(names)}" in shown.out
    answer = londiste(root.db, "add-table", "serial", "Iden tity")
    assert f"with sequences {', '.join(names)}" in answer.err
    assert londiste(root.db, "add-table", "bare", "--no-sequences").code == 0
    identity = "public.Iden tity_id_seq"

    def kept(node: Node) -> set[str]:
        rows = londiste(node.db, "seqs", "--json").json
        return {row["sequence"] for row in rows if row["local"]}

    assert kept(root) == {*names, identity}
    root.db.execute("select nextval('serial_id_seq')")
    assert londiste(leaf.db, "add-table", "serial", "Iden tity", "bare").code == 0
    assert kept(leaf) == {*names, identity}
    assert leaf.db.value("select last_value from serial_id_seq") == 30001
    assert londiste(leaf.db, "remove-table", "serial").code == 0
    assert kept(leaf) == {identity}
    again = londiste(leaf.db, "remove-table", "serial")
    assert (again.code, "already processed" in again.err) == (0, True)
    assert londiste(root.db, "remove-table", "Iden tity").code == 0
    assert kept(root) == set(names)


def test_made_tables_have_their_identity_sequence_followed(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    root.db.execute("create table i (id int generated by default as identity primary key)")
    assert londiste(root.db, "add-table", "i").code == 0
    assert londiste(leaf.db, "add-table", "i", "--create").code == 0
    assert leaf.db.value("select last_value from i_id_seq") == 30001


def test_a_node_knows_what_its_settings_want(
    root: Node, nodes_of: Nodes, londiste: CommandLine, tmp_path: Path
) -> None:
    root.db.execute("create sequence s; create sequence hidden")
    leaf = nodes_of.below(root, "leaf")
    assert londiste(root.db, "add-table", "--all").code == 0
    assert londiste(root.db, "add-seq", "--all").code == 0
    wants = ("--set", "register_only_tables=one,S x.*", "--set", "register_skip_tables=*.T?y")
    wants += ("--set", "register_skip_seqs=hid*")
    assert londiste(leaf.db, *wants, "add-table", "two", "--create").code == 2
    given = ("add-table", "--all", "--create", "--expect-sync")
    assert londiste(leaf.db, *wants, *given).code == 0
    assert local(leaf) == {"public.one": "ok"}
    assert londiste(leaf.db, *wants, "missing", "--json").json == [
        {"kind": "sequence", "name": "public.s", "why": None}
    ]
    config = tmp_path / "worker.toml"
    config.write_text(
        f'[londiste]\ndb = "{leaf.dsn}"\nqueue_name = "q"\njob_name = "w_leaf"\n'
        'engine = "local"\nregister_skip_tables = ["th*"]\nregister_only_seqs = ["s"]\n'
    )
    root.db.execute(
        "create table three (id int primary key); create table four (id int primary key)"
    )
    assert londiste(root.db, "add-table", "three", "four").code == 0
    root.tick()
    assert run_command(cli, ["-c", str(config), "worker", "--once"]) == 0
    known = "select table_name from londiste.table_info where table_name ~ 'three|four'"
    assert leaf.db.execute(known) == [("public.four",)]
    assert leaf.db.execute("select seq_name from londiste.seq_info") == [("public.s",)]


def test_old_news_does_not_undo_an_add(root: Node, leaf: Node, londiste: CommandLine) -> None:
    """The root removed the table and added it again; the node has heard of neither."""
    leaf.db.execute("create table one (id int primary key, v text)")
    assert londiste(root.db, "add-table", "one").code == 0
    assert londiste(leaf.db, "add-table", "one", "--expect-sync").code == 0
    assert londiste(leaf.db, "remove-table", "one").code == 0
    assert londiste(root.db, "remove-table", "one").code == 0
    assert londiste(root.db, "add-table", "one").code == 0
    answer = londiste(leaf.db, "add-table", "one", "--expect-sync")
    assert answer.code == 6
    assert "is not applied on node" in answer.err
    assert local(leaf) == {}
    root.tick()
    answer = londiste(leaf.db, "worker", "--once", job=leaf.worker)
    assert answer.code == 0, answer.err
    assert londiste(leaf.db, "add-table", "one", "--expect-sync").code == 0
    assert local(leaf) == {"public.one": "ok"}


@pytest.mark.parametrize(
    ("name", "words"), [("a,b", "it has a ,"), ("a/b", "it has a /"), ("x" * 64, "has 64 bytes")]
)
def test_a_node_has_a_name_that_can_be_listed(
    nodes_of: Nodes,
    new_database: Callable[..., Database],
    londiste: CommandLine,
    name: str,
    words: str,
) -> None:
    database = new_database(pgq=True)
    answer = londiste(database, "create-root", name)
    assert answer.code == 2
    assert words in answer.err
    assert database.value("select count(*) from pgq_node.node_info") == 0
