"""``londiste add-table``: patterns, options, refusals and created tables."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from londiste.cascade.model import NodeType
from londiste.cli import cli
from londiste.cli.errors import run as run_command
from londiste.db.names import TableName
from londiste.replication import sqlapi as tables
from londiste.replication.commands.create_table import BARE, ddl
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes
from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for


def local(node: Node) -> dict[str, str | None]:
    with psycopg.connect(node.dsn) as conn:
        rows = conn.execute(
            "select table_name, merge_state from londiste.get_table_list('q') where local"
        )
        return dict(rows.fetchall())


def test_patterns_add_matching_tables(root: Node, londiste: CommandLine) -> None:
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
    assert [row["state"] for row in answer.json["tables"]] == [None, None, None]


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
        ('We.ird "S" ü.*', "its schema has a dot in its name"),
        ('"S x".one', "without double quotes"),
        ('S "x".nowhere', "hint: londiste missing"),
        ("empty", "has no columns"),
    ],
)
def test_unsupported_table_is_refused_with_the_reason(
    root: Node, londiste: CommandLine, name: str, words: str
) -> None:
    root.db.execute(
        'create unlogged table quick (id int primary key); create schema "a.b";'
        ' create table "a.b".t (id int primary key); create table empty ();'
        ' create schema "We.ird ""S"" ü"; create table "We.ird ""S"" ü".t (id int primary key)'
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


def test_adding_a_table_again_is_reported_and_succeeds(root: Node, londiste: CommandLine) -> None:
    londiste(root.db, "add-table", "one")
    answer = londiste(root.db, "add-table", "one", "two")
    assert answer.code == 0
    assert "public.one: already added" in answer.err
    assert set(local(root)) == {"public.one", "public.two"}


def test_explaining_adds_nothing(root: Node, leaf: Node, londiste: CommandLine) -> None:
    answer = londiste(root.db, "add-table", "one", "--dry-run")
    assert answer.out == "1. root: add table public.one\n"
    assert local(root) == {}
    londiste(root.db, "add-table", "one")
    answer = londiste(leaf.db, "add-table", "one", "--create", "--dry-run", "--json")
    assert [line.split(":")[0] for line in answer.json["steps"]] == ["leaf", "leaf"]
    assert leaf.db.value("select to_regclass('one')") is None
    assert leaf.db.value("select count(*) from londiste.table_info") == 0


def test_table_without_key_is_refused_with_alternatives(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    root.db.execute("create table log (at timestamptz, line text)")
    why = {
        row["name"]: row["why"]
        for row in londiste(root.db, "missing", "--json").json["missing"]
        if row["kind"] == "table"
    }
    assert why["public.one"] is None
    assert why["public.log"].startswith("has no primary key: londiste add-table NAME --whole-row")
    answer = londiste(root.db, "add-table", "one", "log")
    assert answer.code == 2
    assert "no primary key" in answer.err
    assert "--insert-only" in answer.err
    assert local(root) == {}
    assert londiste(root.db, "add-table", "one", "log", "--insert-only").code == 0
    attrs = {
        row["table"]: row["attributes"]
        for row in londiste(root.db, "tables", "--json").json["tables"]
    }
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


def test_a_given_key_that_may_be_null_is_refused_with_the_statement_to_run(
    root: Node, londiste: CommandLine
) -> None:
    root.db.execute('create table loose (a int not null, b int, "C c" int, v text)')
    for given in ("a,b,C c", "C c, b"):
        answer = londiste(root.db, "add-table", "loose", "--trigger-arg", f"pkey={given}")
        assert answer.code == 2
        assert "the key of table public.loose may be NULL: b, C c" in answer.err
        assert local(root) == {}
    root.db.execute(answer.err.partition("hint: ")[2].strip())
    assert londiste(root.db, "add-table", "loose", "--trigger-arg", f"pkey={given}").code == 0


def test_other_kinds_of_relations_are_named(root: Node, londiste: CommandLine) -> None:
    root.db.execute("create view v as select 1 as x; create materialized view m as select 1 as x")
    assert "is a view" in londiste(root.db, "add-table", "v").err
    answer = londiste(root.db, "add-table", "m")
    assert "is a materialized view" in answer.err
    assert "the tables that it reads from" in answer.err


def test_leaf_adds_only_tables_of_its_provider(
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
        create type mood as enum ('sad', 'happy'); create domain short as text check (value <> '');
        create table rich (
            "Id" bigint generated always as identity,
            code varchar(7) collate "C" not null default 'a''b',
            price numeric(12, 3) default 1.5,
            twice numeric generated always as (price * 2) stored,
            tags text[] default '{}'::text[],
            made timestamptz(3) not null default now(),
            nr serial,
            odd int default f(),
            m mood default 'sad',
            s short default lower('X'),
            gone int,
            primary key (code, "Id")
        );
        alter table rich drop column gone;
        """
    )
    with root.connect() as source, leaf.connect() as target:
        table = TableName("public", "rich")
        made = ddl(source, target, {table: table}, BARE)
        for statement in made.statements:
            target.execute(statement.encode())
    columns = """
        select column_name, data_type, is_nullable, collation_name, column_default, is_identity,
               generation_expression, numeric_precision, datetime_precision
        from information_schema.columns where table_name = 'rich' order by ordinal_position
    """
    theirs = {row[0]: row for row in root.db.execute(columns)}
    ours = {row[0]: row for row in leaf.db.execute(columns)}
    assert list(ours) == list(theirs)
    for name in set(ours) - {"odd"}:
        assert ours[name] == theirs[name]
    # A default that calls a function of the other database is skipped, and the reason is reported.
    assert ours["odd"][4] is None
    assert made.notes == (
        "column odd of table public.rich has no default: it calls function public.f()",
    )
    key = "select pg_get_constraintdef(oid) from pg_constraint where conrelid = 'rich'::regclass"
    assert leaf.db.value(key + " and contype = 'p'") == 'PRIMARY KEY (code, "Id")'


def test_a_created_table_can_be_written_after_a_takeover(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    root.db.execute(
        "create type mood as enum ('ok'); create table m (id serial primary key, m mood)"
    )
    londiste(root.db, "add-table", "m")
    answer = londiste(leaf.db, "add-table", "m", "--create")
    assert answer.code == 0, answer.err
    objects = "type public.mood, sequence public.m_id_seq"
    assert f"create table public.m with {objects} and add" in answer.err
    with leaf.connect() as conn:
        conn.execute("set session_replication_role = replica")
        row = conn.execute("insert into public.m (m) values ('ok') returning id").fetchone()
    assert row is not None and row[0] > 0
    assert leaf.db.value("select pg_get_serial_sequence('m', 'id')") == "public.m_id_seq"
    assert londiste(leaf.db, "seqs", "--json").json["sequences"][0]["local"] is True


def test_a_missing_function_of_a_type_is_named_and_no_table_is_created(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    root.db.execute(
        "create function fits(text) returns bool language sql immutable as 'select true';"
        " create domain good as text check (fits(value));"
        " create table m (id int primary key, g good)"
    )
    londiste(root.db, "add-table", "m")
    answer = londiste(leaf.db, "add-table", "m", "--create")
    assert answer.code == 2
    assert "function public.fits(text) does not exist" in answer.err
    assert "--create-full --create-needs" in answer.err
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
    with contextlib.closing(psycopg.connect(root.dsn)) as writer:
        writer.execute("insert into one values (1, 'x')")
        answer = londiste(root.db, "--set", "lock_timeout=0.3", "add-table", "one")
        assert answer.code == 6
        assert "stays locked" in answer.err
        process = writer.info.backend_pid
        assert re.search(rf"locked by a session of \w+, process {process}, for \d+ s", answer.err)
        assert local(root) == {}
        # The hint is followed as printed.
        remedy = f"select pg_terminate_backend({process})"
        assert f"transaction on node root: {remedy}; then repeat the command\n" in answer.err
        root.db.execute(remedy)
        answer = londiste(root.db, "add-table", "one")
        assert answer.code == 0


def test_a_prepared_transaction_that_holds_a_table_is_named(
    root: Node, londiste: CommandLine
) -> None:
    name = f"held {root.db.name}"
    root.db.execute(f"begin; insert into one values (1, 'x'); prepare transaction '{name}'")
    answer = londiste(root.db, "--set", "lock_timeout=0.3", "add-table", "one")
    remedy = f"rollback prepared '{name}'"
    assert answer.code == 6
    assert f"locked by prepared transaction {name} of postgres, for " in answer.err
    assert f"root: commit prepared '{name}', or {remedy}; then repeat the command\n" in answer.err
    root.db.execute(remedy)
    assert londiste(root.db, "add-table", "one").code == 0


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


def test_registration_settings_filter_the_tables_of_a_node(
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
    assert londiste(leaf.db, *wants, "missing", "--json").json["missing"] == [
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


@pytest.mark.parametrize(
    ("name", "words"),
    [("a,b", "contains ','"), ("a/b", "contains '/'"), ("x" * 64, "is 64 bytes long")],
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


def test_a_partition_and_its_table_are_refused_before_the_first_is_added(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    root.db.execute(
        "create table part (id int primary key) partition by range (id);"
        "create table part_1 partition of part for values from (0) to (9)"
    )
    refused = londiste(root.db, "add-table", "part_1", "part")
    assert refused.code == 3 and local(root) == {}
    assert "table public.part_1 is a partition of table public.part" in refused.err
    assert "hint: add one of them: londiste add-table public.part\n" in refused.err
    for first, second in (("part", "part_1"), ("part_1", "part")):
        assert londiste(root.db, "add-table", first).code == 0
        refused = londiste(root.db, "add-table", "one", second)
        assert refused.code == 3 and list(local(root)) == [f"public.{first}"]
        assert f"remove the other one first: londiste remove-table public.{first}" in refused.err
        assert londiste(root.db, "remove-table", first).code == 0
