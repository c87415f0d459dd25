"""``add-table --create-full`` creates complete tables on a node, all or none."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cascade import CommandLine, Node, Nodes
from tests.support.servers.kept_nodes import kept_nodes

SCHEMA = """
create function note() returns trigger language plpgsql as 'begin return new; end';
create type mood as enum ('sad', 'happy');
create table lines (id int primary key, order_id int not null, m mood);
create table orders (id serial primary key, customer int);
create table customers (id int primary key, name text default 'x' check (name <> ''));
alter table lines add foreign key (order_id) references orders;
alter table orders add foreign key (customer) references customers;
create index lines_m on lines (m);
create trigger lines_t before insert on lines for each row execute function note();
"""


@pytest.fixture
@kept_nodes
def root(nodes_of: Nodes, londiste: CommandLine) -> Node:
    node = nodes_of.root()
    node.db.execute(SCHEMA)
    assert londiste(node.db, "add-table", "--all").code == 0
    return node


@pytest.fixture
def leaf(root: Node, nodes_of: Nodes) -> Node:
    return nodes_of.below(root, "leaf")


def fkeys(node: Node) -> set[str]:
    return {
        str(name)
        for (name,) in node.db.execute("select conname from pg_constraint where contype = 'f'")
        if name in {"lines_order_id_fkey", "orders_customer_fkey"}
    }


def test_tables_are_made_whole_in_an_order_that_works(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    leaf.db.execute("create function note() returns trigger language plpgsql as 'begin end'")
    answer = londiste(leaf.db, "add-table", "--all", "--create-full", "--dry-run")
    assert answer.code == 0
    assert 'create table "public"."lines"' in answer.out
    assert "EXECUTE FUNCTION public.note()" in answer.out
    assert leaf.db.value("select to_regclass('lines')") is None

    answer = londiste(leaf.db, "add-table", "--all", "--create-full")
    assert answer.code == 0, answer.err
    assert fkeys(leaf) == {"lines_order_id_fkey", "orders_customer_fkey"}
    assert leaf.db.value("select count(*) from londiste.table_info where local") == 3
    assert leaf.db.value("select tgenabled from pg_trigger where tgname = 'lines_t'") == "O"
    assert leaf.db.value("select to_regclass('lines_m') is not null")
    # The capture of the root is not a part of the table.
    assert leaf.db.value("select count(*) from pg_trigger where tgname like '\\_londiste%'") == 6


def test_one_that_cannot_be_made_and_nothing_is_done(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    answer = londiste(leaf.db, "add-table", "--all", "--create-full")
    assert answer.code == 2
    assert "function public.note() does not exist" in answer.err
    assert "--create-without triggers" in answer.err
    assert leaf.db.value("select to_regtype('mood')") is None

    # What only the server finds wrong takes everything with it too.
    root.db.execute("create table log (id int)")
    root.db.execute("create rule r as on update to lines do also insert into log values (1)")
    answer = londiste(
        leaf.db, "add-table", "--all", "--create-full", "--create-without", "triggers"
    )
    assert answer.code == 2
    assert 'relation "public.log" does not exist' in answer.err
    assert leaf.db.value("select to_regclass('customers')") is None
    assert leaf.db.value("select count(*) from londiste.table_info where local") == 0

    answer = londiste(
        leaf.db, "add-table", "--all", "--create-full", "--create-without", "triggers, rules"
    )
    assert answer.code == 0, answer.err
    assert leaf.db.value("select count(*) from londiste.table_info where local") == 3


def test_an_event_trigger_that_refuses_a_table_is_named(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    leaf.db.execute(
        "create function guard() returns event_trigger language plpgsql as"
        " $$ begin raise exception 'no tables today'; end $$;"
        " create event trigger guard on ddl_command_start when tag in ('CREATE TABLE')"
        " execute function guard()"
    )
    answer = londiste(leaf.db, "add-table", "customers", "--create-full")
    assert answer.code == 2
    assert "no tables today" in answer.err
    hint = answer.err.partition("hint: ")[2]
    assert "missing object" not in hint
    assert "function public.guard() has raised it" in hint
    assert "alter event trigger … disable" in hint


NEEDS = """
create extension if not exists pg_trgm;
create schema lib; grant usage on schema lib to public;
create domain lib.short as text check (length(value) < 100);
create function lib.twice(mood) returns text language sql immutable as $$ select $1::text || $1 $$;
create function lib.fits(text) returns bool language sql immutable as $$ select $1 <> 'bad' $$;
create domain good as text check (lib.fits(value));
alter table lines add w text generated always as (lib.twice(m)) stored, add g good, add s lib.short;
create index on customers using gin (name gin_trgm_ops);
"""


def test_everything_that_is_missing_is_named_at_once_and_created_when_asked_for(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    available = "select count(*) from pg_available_extensions where name = 'pg_trgm'"
    needs = NEEDS if root.db.value(available) else NEEDS.replace("create extension", "-- ")
    if needs != NEEDS:
        needs = needs.replace("create index", "-- ")
    root.db.execute(needs)
    refused = londiste(leaf.db, "add-table", "--all", "--create-full")
    assert refused.code == 2
    for name in ("lib.twice(public.mood)", "lib.fits(text)", "public.note()"):
        assert f"function {name}" in refused.err
    assert ("create extension" in refused.err) is (needs == NEEDS)
    assert "hint: create the missing objects: --create-needs" in refused.err
    alone = londiste(leaf.db, "add-table", "--all", "--create", "--create-needs")
    assert alone.code == 2
    assert "use --create-full" in alone.err
    create = ("add-table", "--all", "--create-full", "--create-needs")
    shown = londiste(leaf.db, *create, "--dry-run")
    assert shown.code == 0, shown.err
    assert "FUNCTION lib.fits(text)" in shown.out
    assert leaf.db.value("select to_regnamespace('lib')") is None
    done = londiste(leaf.db, *create)
    assert done.code == 0, done.err
    leaf.db.execute(
        "set session_replication_role = replica;"
        "insert into lines (id, order_id, m, g) values (1, 1, 'sad', 'fine')"
    )
    assert leaf.db.value("select w from lines") == "sadsad"
    grants = "select nspacl::text from pg_namespace where nspname = 'lib'"
    assert leaf.db.value(grants) == root.db.value(grants) is not None
    assert londiste(leaf.db, *create).code == 0


def test_a_domain_over_a_type_of_an_extension_needs_the_extension_alone(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    available = "select name from pg_available_extensions where name in ('citext', 'vector')"
    name = root.db.value(available)
    if name is None:
        pytest.skip("the server offers no extension with a type of a known name")
    root.db.execute(
        f"create schema ext; grant usage on schema ext to public; create extension {name} schema"
        f" ext; create domain mine as ext.{name}; alter table customers add mine mine"
    )
    refused = londiste(leaf.db, "add-table", "customers", "--create-full")
    assert refused.code == 2
    assert 'or: create schema if not exists "ext"' in refused.err
    assert refused.err.endswith(
        f'; grant USAGE on schema "ext" to public; create extension "{name}" schema "ext"\n'
    )
    create = ("--create-full", "--create-needs")
    # It is in another schema already.
    leaf.db.execute(f"create extension {name}")
    refused = londiste(leaf.db, "add-table", "customers", *create)
    assert (refused.code, f'alter extension "{name}" set schema "ext"' in refused.err) == (2, True)
    assert "--create-needs" not in refused.err
    leaf.db.execute(f"drop extension {name}")
    done = londiste(leaf.db, "add-table", "customers", *create)
    assert done.code == 0, done.err
    assert leaf.db.value("select to_regtype('mine') is not null")


@pytest.mark.parametrize(
    ("missing", "error"),
    [
        ("create table other (a int); alter table customers add o other", "type public.other"),
        (
            'create collation mine from pg_catalog."C";'
            "alter table customers add o text collate mine",
            "collation public.mine",
        ),
        (
            "create rule r as on update to customers do also insert into log values (1)",
            'relation "public.log"',
        ),
    ],
)
def test_what_creating_needs_does_not_create_has_a_hint_that_can_be_followed(
    root: Node, leaf: Node, londiste: CommandLine, missing: str, error: str
) -> None:
    root.db.execute("create table log (id int)")
    root.db.execute(missing)
    create = ("--create-full", "--create-needs")
    refused = londiste(leaf.db, "add-table", "customers", *create)
    assert refused.code == 2
    assert error in refused.err
    hint = refused.err.partition("hint: ")[2]
    assert "first" in hint
    if "collation" in error:
        leaf.db.execute(hint.partition("first: ")[2])
        assert londiste(leaf.db, "add-table", "customers", "--create").code == 0
    assert "--create-needs" not in hint
    assert ("--create-without" in hint) is ("rules" in hint) is ("log" in error)


@pytest.mark.parametrize(
    "create", [("--create",), ("--create-full", "--create-without", "parents,triggers")]
)
def test_a_partitioned_table_is_created_with_its_partitions(
    root: Node, leaf: Node, londiste: CommandLine, create: tuple[str, ...]
) -> None:
    root.db.execute(
        "create table p (id int, k text, primary key (id, k)) partition by list (k);"
        "create table pa partition of p for values in ('a') partition by range (id);"
        "create table pa1 partition of pa for values from (1) to (9);"
        "create table pd partition of p default"
    )
    assert londiste(root.db, "add-table", "p").code == 0
    answer = londiste(leaf.db, "add-table", "p", *create, "--expect-sync")
    assert answer.code == 0, answer.err
    leaf.db.execute(
        "set session_replication_role = replica; insert into p values (1, 'a'), (1, 'x')"
    )
    rows = "select tableoid::regclass::text from p order by 1"
    assert leaf.db.execute(rows) == [("pa1",), ("pd",)]
    indexes = "select count(*) from pg_partition_tree('p_pkey')"
    assert leaf.db.value(indexes) == root.db.value(indexes) == 4


def test_a_partition_that_is_a_foreign_table_is_not_left_out(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    root.db.execute(
        "create foreign data wrapper w; create server s foreign data wrapper w;"
        "create table far (id int, k int) partition by range (k)"
    )
    assert londiste(root.db, "add-table", "far", "--insert-only").code == 0
    # With it, the root would have refused the table.
    root.db.execute(
        "create foreign table far_1 partition of far for values from (1) to (9) server s"
    )
    root.db.execute("create table near (id int) partition by list (id)")
    root.db.execute("create table sub partition of near default partition by list (id)")
    root.db.execute('create foreign table "Far" partition of sub default server s')
    refused = londiste(root.db, "add-table", "near", "--insert-only")
    assert "partition public.Far of table public.near is a foreign table" in refused.err
    root.db.execute(refused.err.partition("detach it: ")[2].partition("; or ")[0])
    assert londiste(root.db, "add-table", "near", "--insert-only").code == 0
    for create in ("--create", "--create-full"):
        refused = londiste(leaf.db, "add-table", "far", create)
        assert refused.code == 2
        assert "table public.far cannot be created: partition public.far_1 is a" in refused.err
        assert leaf.db.value("select to_regclass('far')") is None
    # Rows have a place, or get one by hand.
    root.db.execute("create table far_d partition of far default")
    dry = londiste(leaf.db, "add-table", "far", "--create", "--dry-run")
    assert dry.code == 0 and "far_d" in dry.out
    root.db.execute("drop table far_d")
    leaf.db.execute(
        "create table far (id int, k int) partition by range (k);"
        "create table far_1 partition of far for values from (1) to (9)"
    )
    done = londiste(leaf.db, "add-table", "far", "--create")
    assert done.code == 0, str(done)


def test_code_of_a_created_partition_needs_consent(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    leaf.db.execute("create function note() returns trigger language plpgsql as 'begin end'")
    root.db.execute(
        "create table p (id int primary key) partition by list (id);"
        "create table pa partition of p default;"
        "create trigger pa_t before insert on pa for each row execute function note();"
        "alter table pa enable always trigger pa_t"
    )
    assert londiste(root.db, "add-table", "p").code == 0
    refused = londiste(leaf.db, "add-table", "p", "--create-full")
    assert refused.code == 2
    assert "trigger pa_t (public.note())" in refused.err
    assert leaf.db.value("select to_regclass('p')") is None
    assert londiste(leaf.db, "add-table", "p", "--create-full", "--allow-code").code == 0


def test_parts_are_named_right(root: Node, leaf: Node, londiste: CommandLine) -> None:
    answer = londiste(leaf.db, "add-table", "lines", "--create", "--create-without", "rules")
    assert answer.code == 2
    assert "use --create-full" in answer.err
    answer = londiste(leaf.db, "add-table", "lines", "--create-full", "--create-without", "legs")
    assert answer.code == 2
    assert "foreign-keys" in answer.err


def test_a_branch_with_other_names_is_a_source_too(
    root: Node, nodes_of: Nodes, londiste: CommandLine
) -> None:
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    create = ("--create-full", "--create-without", "triggers", "--expect-sync")
    for table, name in (("customers", "b.kunden"), ("orders", "b.aufträge"), ("lines", "b.lines")):
        answer = londiste(branch.db, "add-table", table, "--dest-table", name, *create)
        assert answer.code == 0, answer.err
    key = "select pg_get_constraintdef(oid) from pg_constraint where conrelid = %s::regclass"
    key += " and contype = 'f'"
    assert branch.db.value(key, "b.lines") == 'FOREIGN KEY (order_id) REFERENCES b."aufträge"(id)'
    leaf = nodes_of.below(branch, "leaf")
    answer = londiste(leaf.db, "add-table", "lines", "orders", "customers", *create)
    assert answer.code == 0, answer.err
    assert leaf.db.value(key, "lines") == "FOREIGN KEY (order_id) REFERENCES orders(id)"
    assert leaf.db.value("select to_regclass('orders_id_seq') is not null")


def test_a_key_waits_for_its_table(root: Node, leaf: Node, londiste: CommandLine) -> None:
    create = ("--create-full", "--create-without", "triggers", "--expect-sync")
    answer = londiste(leaf.db, "add-table", "lines", *create)
    assert answer.code == 0
    assert "foreign key lines_order_id_fkey of table public.lines waits" in answer.err
    assert leaf.db.execute(
        "select from_table, to_table, fkey_name from londiste.pending_fkeys"
    ) == [("public.lines", "public.orders", "lines_order_id_fkey")]
    answer = londiste(leaf.db, "add-table", "orders", "customers", *create)
    assert answer.code == 0, answer.err
    # Both tables are in step: the worker would make it now.
    assert leaf.db.value("select fkey_name from londiste.get_valid_pending_fkeys('q')") == (
        "lines_order_id_fkey"
    )
    assert leaf.db.value("select londiste.restore_table_fkey('lines', 'lines_order_id_fkey')") == ""
    assert fkeys(leaf) == {"lines_order_id_fkey", "orders_customer_fkey"}


def test_a_partitioned_table_does_not_depend_on_the_default_tablespace(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    root.db.execute(
        "create table parted (id int primary key) partition by range (id);"
        " create table parted_1 partition of parted for values from (0) to (9)"
    )
    assert londiste(root.db, "add-table", "parted").code == 0
    # That of the database itself: CREATE of a partitioned table refuses the name.
    leaf.db.execute(f"alter database \"{leaf.db.name}\" set default_tablespace = 'pg_default'")
    answer = londiste(leaf.db, "add-table", "parted", "--create-full")
    assert answer.code == 0, str(answer)
    assert leaf.db.value("select relkind from pg_class where relname = 'parted'") == "p"
