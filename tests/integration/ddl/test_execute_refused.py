"""Scripts that ``londiste execute`` refuses: they break replication or differ between nodes."""

from __future__ import annotations

import json

import pytest

from tests.fixtures.line import QUEUE
from tests.fixtures.scripts import Tree
from tests.support.suite.slow import first

BREAKING = {
    "alter table t rename to t2": "table public.t: a script cannot drop or rename",
    "drop table t; create table t (id int primary key)": "a script cannot drop or rename",
    "alter table londiste.seq_info add column x int": "changes the schemas of replication",
    "select 1; selekt 2": "script d3.sql: statement 2 (line 1) failed on node root",
    # Londiste cannot call its own functions behind these.
    "drop schema londiste cascade": "changes the schemas of replication",
    "alter table londiste.table_info rename to gone": "changes the schemas of replication",
    "drop function londiste.script_changes(jsonb)": "changes the schemas of replication",
}


def test_what_would_break_replication_is_refused_on_the_root(tree: Tree) -> None:
    for number, (text, said) in enumerate(BREAKING.items()):
        done = tree.execute(f"d{number}.sql", text)
        assert done.code == 5, text
        assert said in done.err, text
        # No worker runs it on the root: the command is given again there.
        hint = done.err.rpartition("hint: ")[2]
        assert "then repeat the command" in hint, text
        assert "execute retry" not in hint, text
    assert tree.root.database.value("select count(*) from londiste.applied_execute") == 0
    assert tree.root.database.value("select to_regclass('public.t') is not null")


def test_a_script_that_fails_shows_its_own_names_and_no_value_of_a_row(tree: Tree) -> None:
    tree.root.database.execute("insert into t values (1, 'topsecret & & x')")
    for number, (text, said) in enumerate(
        {
            "update t set v = to_tsquery('simple', v)::text": "syntax error in tsquery: ***",
            "alter table nope add column v int": 'relation "nope" does not exist',
            "alter table t add check (id > 1)": 'of relation "t" is violated by some row',
        }.items()
    ):
        done = tree.execute(f"v{number}.sql", text)
        assert done.code == 5, str(done)
        assert said in done.err and "topsecret" not in done.err, str(done)


def test_a_script_that_breaks_the_schemas_of_one_node_waits_there_for_a_person(tree: Tree) -> None:
    leaf = tree.leaf.database.value("select current_database()")
    tree.fine(
        "drop.sql",
        f"do $$ begin if current_database() = '{leaf}' then"
        " drop schema londiste cascade; end if; end $$",
    )
    tree.line.tick()
    tree.once(tree.branch)
    failed = tree.run(tree.leaf, "worker", "--once")
    assert failed.code == 5, str(failed)
    assert "script drop.sql failed on node leaf: it changes the schemas of replic" in failed.err
    assert tree.states("drop.sql") == ["done", "done", "failed"]
    assert tree.run(tree.leaf, "execute", "skip", "drop.sql").code == 0
    tree.catch_up()
    local = tree.execute("local.sql", "drop schema pgq_node cascade", "--local", node=tree.leaf)
    assert local.code == 5 and "changes the schemas of replication" in local.err, str(local)


def test_a_script_cannot_rename_a_replicated_sequence(tree: Tree) -> None:
    tree.root.database.execute("create sequence kept; create sequence other; create schema own")
    tree.root.database.execute("select londiste.local_add_seq(%s, 'public.kept')", QUEUE)
    moves = ("rename to gone", "rename to gone; create sequence kept", "set schema own")
    for number, text in enumerate(moves):
        done = tree.execute(f"seq{number}.sql", f"alter sequence kept {text}")
        assert done.code == 5, str(done)
        assert "sequence public.kept: a script cannot rename a replicated sequence" in done.err
        assert "londiste remove-seq public.kept" in done.err
    assert tree.execute("fine.sql", "alter sequence other rename to third").code == 0
    assert tree.execute("drop.sql", "drop sequence kept; create sequence kept").code == 0


#: Scripts and the function that they are refused for, in an order in which they can all run.
VOLATILE = {
    "update t set v = random()::text": "random()",
    "insert into t (id, v) values (1, now()::text)": "now()",
    "alter table t add column at timestamptz default current_timestamp": "current_timestamp",
    "alter table t add column n bigserial": "nextval()",
    "alter table t alter v type text using public.other(v)": "other()",
    "delete from t where v < clock_timestamp()::text": "clock_timestamp()",
    "with x as (select gen_random_uuid() u) update t set v = x.u from x": "gen_random_uuid()",
    "insert into s (v) values ('x')": "the default of column id",
    "insert into public.s default values": "the default of column at, ",
}


@pytest.mark.parametrize("turn", first([0, 1]))
def test_a_script_that_gives_other_values_on_each_node_is_refused(tree: Tree, turn: int) -> None:
    texts = list(VOLATILE.items())[turn::2]
    for node in tree.nodes:
        node.database.execute(
            "create table s (id serial primary key, v text, at timestamptz default now());"
            "create function public.other(text) returns text language sql volatile"
            " as $$ select $1 || random() $$"
        )
    for number, (text, function) in enumerate(texts):
        script = f"vol{number}.sql"
        refused = tree.execute(script, text)
        assert refused.code == 2, text
        assert "different values on each node" in refused.err, text
        assert function in refused.err, text
        assert "hint: run the statement on the root with psql" in refused.err, text
        assert tree.root.database.value("select count(*) from londiste.applied_execute") == number
        assert tree.execute(script, text, "--volatile").code == 0, text
    tree.catch_up()
    for number, (text, _) in enumerate(texts):
        assert tree.states(f"vol{number}.sql") == ["done"] * 3, text
        # What ran once is passed over, and not looked at again.
        assert tree.execute(f"vol{number}.sql", text).code == 0, text


INSIDES = """
create table s (id int primary key, v text default my_stable(), at timestamptz);
create table made (id int primary key, at timestamptz);
create function touch() returns trigger language plpgsql as $$
    begin new.at := clock_timestamp(); return new; end $$;
create trigger touch before insert or update on made for each row execute function touch();
create table ups (like made including all);
create trigger ups before update on ups for each row execute function touch();
create function writes() returns int language sql as $$ insert into t values (1, my_stable()) $$;
create function clean() returns void language sql as $$ insert into t values (1, 'x') $$;
create procedure does() language plpgsql as $$ begin perform clean(); perform my_stable(); end $$;
"""


INSIDE = {
    "update t set v = my_stable()": "my_stable(), which calls now()",
    "update t set v = outer_one()": "outer_one(), which calls now()",
    "insert into t select 1, my_clock()": "my_clock()",
    "insert into s (id) values (1)": "the default of column v",
    "insert into made values (1, null)": "trigger touch, which calls clock_timestamp()",
    "with x as (select 1 as n) update made set at = null from x": "trigger touch, which",
    "insert into ups values (1, null) on conflict (id) do update set at = null": (
        "trigger ups, which calls"
    ),
    "select writes()": "writes(), which calls now()",
    "call does()": "does(), which calls now()",
    "do $$ begin insert into t values (1, my_stable()); end $$": "do(), which calls now()",
    "create table copied as select my_stable() as v": "my_stable(), which calls now()",
}


CARRIED = {
    "prepare p as update t set v = now()::text": "now()",
    "prepare p (int) as (update t set v = now()::text where id = $1)": "now()",
    "execute p (clock_timestamp()::text)": "clock_timestamp()",
    "explain analyze update t set v = random()::text": "random()",
    "explain (costs off, analyze) insert into t values (1, now()::text)": "now()",
    "explain analyze verbose select writes()": "writes(), which calls now()",
    "copy t from '/tmp/rows.csv' with (format csv)": "copy from a file",
    "copy t (id, v) from program 'date' csv": "copy from a program",
    "copy (update t set v = now()::text returning id) to '/tmp/rows.csv'": "now()",
    "select now() as at into copied from t": "now()",
}
UNCHANGED = [
    "explain update t set v = now()::text",
    "explain (verbose, costs off) update t set v = now()::text",
    "explain analyze select now()",
    "prepare p as select now()",
    "prepare p (text) as update t set v = $1",
    "execute p ('x')",
    "copy (select now()) to '/tmp/rows.csv'",
    "copy t to program 'cat'",
    "select 'insert into' as a from t",
]


def test_statements_that_carry_others_are_refused_like_them(tree: Tree) -> None:
    tree.root.database.execute(
        "create function writes() returns void language sql as"
        " $$ insert into t values (1, now()::text) $$"
    )
    for text, said in CARRIED.items():
        refused = tree.execute("c.sql", text, "--dry-run")
        assert refused.code == 2, text
        assert f"different values on each node: {said}" in refused.err, text
        assert tree.execute("c.sql", text, "--dry-run", "--volatile").code == 0, text
    for text in UNCHANGED:
        done = tree.execute("c.sql", text, "--dry-run")
        assert done.code == 0, (text, done)


def test_what_functions_and_triggers_do_inside_is_refused_too(tree: Tree) -> None:
    functions = """
        create function my_stable() returns text language sql stable as $$ select now()::text $$;
        create function my_clock() returns text language plpgsql as
            $$ begin return localtimestamp; end $$;
        create function outer_one() returns text language plpgsql stable as
            $$ begin return my_stable(); end $$;
    """
    for node in tree.nodes:
        node.database.execute(functions)
        node.database.execute(INSIDES.replace("returns int", "returns void"))
    for number, (text, said) in enumerate(INSIDE.items()):
        refused = tree.execute(f"in{number}.sql", text)
        assert refused.code == 2, text
        assert f"different values on each node: {said}" in refused.err, text
        assert tree.execute(f"in{number}.sql", text, "--volatile").code == 0, text
        # The next one may insert the same row.
        tree.root.database.execute("delete from t")


def test_functions_and_triggers_that_do_the_same_everywhere_need_no_option(tree: Tree) -> None:
    for node in tree.nodes:
        node.database.execute(
            "create function quiet() returns trigger language plpgsql as $$ begin"
            " perform pg_notify('x', new.id::text); new.v := upper(new.v); return new; end $$;"
            "create trigger quiet before insert or update on t for each row"
            " execute function quiet();"
            "create function fixed(int) returns text language sql immutable as"
            " $$ select 'v' || $1 $$;"
            "create function clean() returns void language sql as"
            " $$ insert into t values (1, fixed(1)) $$;"
            "create function later() returns timestamptz language sql as $$ select now() $$;"
            "create table d (id int primary key, v text default fixed(2))"
        )
    tree.fine("clean.sql", "select clean(); insert into d (id) values (1); select later();")
    tree.fine(
        "new.sql",
        "create table new (a int, b int generated always as (a + 1) stored,"
        " at timestamptz default now())",
    )
    tree.fine("more.sql", "update t set v = fixed(3); do $$ begin update t set v = v; end $$")
    tree.catch_up()
    assert tree.rows("select id, v from t") == [(1, "V3")]


def test_a_script_with_the_same_values_everywhere_needs_no_option(tree: Tree) -> None:
    tree.fine(
        "same.sql",
        "alter table t add c int default 7, alter c set default random();"
        "alter table t add d text, add constraint ok check (id > 0);"
        "create table log (at timestamptz default now());"
        "update t set v = upper(v), d = coalesce(d, 'now()');"
        "insert into t (id, v, c) values (1000, lower('X'), abs(-1)); select random()",
    )
    tree.catch_up()
    for node in tree.nodes:
        found = node.database.execute("select * from londiste.rewritten_tables(%s)", QUEUE)
        assert found == [], node.name


def test_no_hint_recommends_to_drop_more_and_no_name_is_doubled(tree: Tree) -> None:
    tree.root.database.execute("create view seen as select * from t")
    done = tree.line.here(tree.root, "execute", "--sql", "drop table t")
    assert done.code == 5 and "other objects depend on it" in done.err
    assert "CASCADE" not in done.err.partition("hint: ")[2]
    done = tree.line.here(tree.root, "execute", "--sql", "")
    assert done.code == 2 and done.err.count("sql-") == 1, done.err


def test_a_dry_run_refuses_what_the_command_refuses(tree: Tree) -> None:
    for text in (
        "update t set v = current_timestamp::text",
        "update t set v = ctid::text",
        "delete from t where xmin::text = '1'",
        "update t set v = tableoid::text",
        "update t set v = ('t'::regclass::oid)::text",
        "update t set v = current_setting('port')",
        "update t set v = setting from pg_settings where name = 'port'",
    ):
        for more in ((), ("--dry-run",)):
            refused = tree.execute("d.sql", text, *more)
            assert refused.code == 2, (text, more, refused)
            assert "different values on each node" in refused.err, text
        assert tree.execute("d.sql", text, "--dry-run", "--volatile").code == 0, text
    for fine in (
        "update t set v = 'ctid', id = id::oid::int where v = $$xmin$$",
        "update t set v = s.xmin from (select min(v) as xmin from t) s",
    ):
        assert tree.execute("e.sql", fine, "--dry-run").code == 0
    tree.fine("f.sql", "select 1")
    other = tree.execute("f.sql", "select 2", "--dry-run")
    assert other.code == 3
    below = tree.execute("g.sql", "select 1", "--dry-run", node=tree.leaf)
    assert below.code == 3


def test_an_argument_that_no_longer_fits_its_table_stops_no_script_for_other_tables(
    tree: Tree,
) -> None:
    keep = "create function keep(text) returns bool language sql as 'select true'"
    for node, words in ((tree.root, ()), (tree.branch, ("--expect-sync",))):
        node.database.execute(f"create table u (id int primary key, v text); {keep}")
        done = tree.run(node, "add-table", "u", *words, "--trigger-arg", "when=keep(v)")
        assert done.code == 0, str(done)
        tree.line.tick()
        tree.once(tree.branch)
    for node in (tree.root, tree.branch):
        node.database.execute("drop function keep(text); alter table u add loc int")
    told = tree.fine("t.sql", "alter table t add n int").err
    assert "table public.u: its capture is left as it is: trigger argument 'when=keep(v)'" in told
    # It was so before the script, which adds a column.
    tree.fine("u.sql", "--*-- Need-Table: public.u\nalter table u add m int")
    tree.catch_up()
    assert tree.rows("select n from t") == []
    [found] = [
        one
        for one in json.loads(tree.run(tree.branch, "check", "--json").out)["findings"]
        if one["kind"] == "capture-broken"
    ]
    assert found["severity"] == "warning" and "if this branch became the root" in found["what"]


def test_a_renamed_column_of_an_argument_is_renamed_together_with_its_capture(tree: Tree) -> None:
    for node in (tree.root, tree.branch):
        node.database.execute(
            f"select londiste.create_capture('{QUEUE}', 'public.t', '{{when=v is not null}}')"
        )
    rename = "alter table t rename v to w;"
    done = tree.execute("r.sql", rename)
    assert done.code == 5 and "'when=v is not null' does not fit table public.t" in done.err, done
    tree.root.database.execute("insert into t values (1, 'a'), (2, null)")
    _, _, printed = done.err.partition("with the argument corrected: ")
    printed, _, _ = printed.splitlines()[0].partition("; correct")
    tree.fine("w.sql", f"{rename} {printed.replace('v is not null', 'w is not null')}")
    tree.root.database.execute("insert into t values (3, 'c'); delete from t where id = 2")
    tree.catch_up()
    assert tree.rows("select * from t order by id") == [(1, "a"), (3, "c")]
