"""Tables of a hostile source: creating them runs no code with the rights of the target's roles."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.errors import UsageError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import execute
from londiste.replication.commands import add_table
from londiste.replication.model import TableOptions
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes
from tests.fixtures.cluster import Database
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.suite.slow import first

#: Runs what it gets, with the rights of the caller.
RUN = (
    "create function run(text) returns bool language plpgsql"
    " as 'begin execute $1; return true; end'"
)
IMMUTABLE = RUN.replace("plpgsql", "plpgsql immutable")
TRIGGER = "create function f() returns trigger language plpgsql as 'begin return new; end'"
#: Attacks: DDL of the source, DDL of the target before, and the part that is named.
ATTACKS = {
    "query in a check": (
        "create table t (id int primary key, v text check (query_to_xml(v, true, false, '') is not"
        " null))",
        "",
        "constraint t_v_check (query_to_xml(text,boolean,boolean,text))",
    ),
    "tables in a default": (
        "create table t (id int primary key, v xml default table_to_xml('pg_authid', true, false,"
        " ''))",
        "",
        "column v (table_to_xml(regclass,boolean,boolean,text))",
    ),
    "file in a default": (
        "create table t (id int primary key, v text default pg_read_file('/etc/passwd'))",
        "",
        "column v (pg_read_file(text))",
    ),
    "domain": (
        "create domain d as text check (lo_import(value) > 0); create table t (id int primary key,"
        " v d[])",
        "",
        "constraint d_check (lo_import(text))",
    ),
    "function of the target": (
        f"{RUN}; create table t (id int primary key, v text check (run(v)))",
        RUN,
        "constraint t_v_check (public.run(text))",
    ),
    "new function in a check": (
        f"{RUN}; create table t (id int primary key, v text check (run(v)))",
        "",
        "function public.run(text)",
    ),
    "new function in an index, called when it is created": (
        f"{IMMUTABLE}; create table t (id int primary key, v text); create index on t (run('select"
        " 1'), id)",
        "",
        "function public.run(text)",
    ),
    "new function in a generated column": (
        f"{IMMUTABLE}; create table t (id int primary key, v text, g bool generated always as"
        " (run(v)) stored)",
        "",
        "function public.run(text)",
    ),
    "new function of a range type": (
        "create function diff(date, date) returns float8 language plpgsql immutable as 'begin"
        " return 1; end'; create type r as range (subtype = date, subtype_diff = diff);"
        " create table t (id int primary key, v r)",
        "",
        "function public.diff(date,date)",
    ),
    "rule": (
        "create table t (id int primary key, v text); create rule r as on insert to t do also"
        " delete from t where v = 'x'",
        "",
        "rule r (its actions, with the rights of the owner of the table)",
    ),
    "trigger that fires for the worker": (
        f"{TRIGGER}; create table t (id int primary key); create trigger g before insert on t"
        " for each row execute function f(); alter table t enable always trigger g",
        TRIGGER,
        "trigger g (public.f())",
    ),
    "policy": (
        "create table t (id int primary key); create policy p on t using (pg_sleep(1) is null)",
        "",
        "policy p (pg_sleep(double precision))",
    ),
}


def create(leaf: Node, *, allow_code: bool = False) -> None:
    """What ``replicate`` and ``apply`` do, before and after the consent."""
    options = TableOptions(
        create_full=True, create_needs=True, expect_sync=True, allow_code=allow_code
    )
    with Connections(name="test") as sites:
        plan = add_table.plan(sites, leaf.dsn, QUEUE, ["t"], options)
        execute(plan.steps, sites)


@kept_nodes
def _pair(nodes_of: Nodes) -> tuple[Node, Node]:
    root = nodes_of.root()
    return root, nodes_of.below(root, "leaf")


@pytest.mark.parametrize("attack", ATTACKS)
def test_code_of_the_source_is_created_only_after_consent(nodes_of: Nodes, attack: str) -> None:
    there, here, part = ATTACKS[attack]
    root, leaf = _pair(nodes_of)
    root.db.execute(there)
    with Connections(name="test") as sites:
        options = TableOptions(trigger_flags="")
        execute(add_table.plan(sites, root.dsn, QUEUE, ["t"], options).steps, sites)
    if here:
        leaf.db.execute(here)
    with pytest.raises(UsageError, match="code of the provider that would run in") as caught:
        create(leaf)
    assert part in caught.value.message
    assert "--allow-code" in caught.value.hint
    assert leaf.db.value("select to_regclass('t')") is None
    new = "select count(*) from pg_proc where pronamespace = 'public'::regnamespace"
    assert leaf.db.value(new) == (1 if here else 0)
    create(leaf, allow_code=True)
    assert leaf.db.value("select to_regclass('t')") == "t"


@pytest.mark.parametrize("attack", first(["new function in a check", "rule", "file in a default"]))
def test_replicate_refuses_code_before_anything_is_done(
    attack: str, new_database: Callable[..., Database], capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = new_database(pgq=False), new_database(pgq=False)
    source.execute(ATTACKS[attack][0])
    call = ["replicate", source.dsn, target.dsn]
    assert run(cli, call) == 3
    printed = capsys.readouterr().err
    assert ATTACKS[attack][2] in printed and "nothing was changed" in printed
    assert "--allow-code" in printed
    for database in (source, target):
        assert database.value("select to_regnamespace('pgq')") is None
    # What is there already, or is not selected, needs no consent.
    assert run(cli, [*call, "--dry-run", "--allow-code"]) == 0
    target.execute(ATTACKS[attack][0])
    assert run(cli, [*call, "--dry-run"]) == 0


def test_texts_of_the_source_are_no_sql_and_harmless_functions_need_no_consent(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    odd = '"x""; drop table victim; --\'"'
    text = "'''; drop table victim; --'"
    root = nodes_of.root()
    root.db.execute(
        f"create type {odd} as enum ({text}, 'b');"
        f"create domain d as text default {text} check (value <> 'no' || {text});"
        f"create table t (id serial primary key, {odd} {odd} default {text}, e d default {text},"
        " u uuid default gen_random_uuid(), w timestamptz default now(), c float8 default random(),"
        f" v text, g text generated always as (lower(v || {text})) stored,"
        f" constraint {odd} check (v <> {text}));"
        f"create index {odd} on t (lower(v), ({text} || v)) where v <> {text};"
        f"create statistics {odd.replace('x', 's')} on id, v from t;"
        f"comment on table t is {text}; comment on column t.{odd} is {text};"
        f"comment on constraint {odd} on t is {text}; comment on type {odd} is {text};"
        f"create policy {odd} on t using (v <> {text})"
    )
    assert londiste(root.db, "add-table", "--all").code == 0
    leaf = nodes_of.below(root, "leaf")
    leaf.db.execute("create table victim (id int)")
    create(leaf)
    assert leaf.db.value("select to_regclass('victim')") == "victim"
    for query in (
        "select string_agg(column_name, ',' order by ordinal_position) from"
        " information_schema.columns where table_name = 't'",
        "select pg_get_constraintdef(oid) from pg_constraint where conrelid = 't'::regclass and"
        " contype = 'c'",
        "select string_agg(indexdef, ',' order by indexname) from pg_indexes where tablename = 't'",
        "select obj_description('t'::regclass)",
    ):
        assert leaf.db.value(query) == root.db.value(query)
