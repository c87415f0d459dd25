"""Definitions of created tables: what an older server, a missing parent or an option excludes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from londiste.db.names import TableName
from londiste.db.structure.introspect import read, there
from londiste.db.structure.render import make
from londiste.db.structure.types import WHOLE, Part
from londiste.errors import UsageError
from londiste.migrate import drift
from londiste.monitor.queues.model import Severity
from tests.fixtures.cluster import Database, Server, wanted_version
from tests.integration.capture.test_structure import (  # noqa: F401 -- roles: a fixture, autouse
    FUNCTIONS,
    SCHEMA,
    make_there,
    roles,
    same,
)

pytestmark = pytest.mark.skipif(
    wanted_version() < 15, reason="its tables have what came with PostgreSQL 15"
)


def test_what_only_18_knows_goes_to_16_as_far_as_it_can(
    new_database: Callable[..., Database], cluster: Server, cluster16: Server
) -> None:
    if cluster.version < 18:
        pytest.skip("needs PostgreSQL 18")
    source, target = new_database(on=cluster, pgq=True), new_database(on=cluster16, pgq=True)
    equal = new_database(on=cluster, pgq=True)
    source.execute(
        """
        create table a (id int primary key, n int constraint odd_name not null no inherit,
            v int generated always as (n + 1) virtual, w int, x int);
        alter table a add constraint w_there not null w not valid;
        alter table a add constraint x_ok check (x > 0) not enforced;
        alter table a set (autovacuum_vacuum_max_threshold = 9, fillfactor = 50);
        create table b (id int primary key, a int references a not enforced);
        create table p (id int generated always as identity, k int, primary key (id))
            partition by hash (id);
        create table p0 partition of p for values with (modulus 1, remainder 0);
        alter table p add constraint k_there foreign key (k) references a not valid;
        create table d (id int primary key, at int4range, span int4range,
            constraint one_at_a_time unique (at, span without overlaps));
        create table e (id int primary key, at int4range, span int4range, constraint within
            foreign key (at, period span) references d (at, period span));
        create table c (more int) inherits (a);
        grant maintain, select on a to some_reader;
        """
    )
    names = ["a", "b", "p", "d", "e", "c"]
    made = make_there(source, target, names)
    said = "\n".join(made.notes)
    for words in (
        "v of table public.a is stored",
        "w of table public.a may be NULL",
        "check x_ok",
        "autovacuum_vacuum_max_threshold",
        "foreign key b_a_fkey",
        "foreign key k_there",
        "foreign key within",
        "constraint one_at_a_time",
        "id of table public.p is no identity in the partitions",
        "MAINTAIN",
    ):
        assert words in said
    assert len(made.notes) == 11
    assert target.value("select attgenerated::text from pg_attribute where attname = 'v'") == "s"
    assert make_there(source, equal, names).notes == ()
    same(source, equal, equal)
    with source.connect() as old, target.connect() as new:
        seen = drift.look(old), drift.look(new)
    for one, other, names_of in ((*seen, ("old", "new")), (*seen[::-1], ("new", "old"))):
        found = drift.differences(one, other, names_of)
        assert {f.severity for f in found} == {Severity.WARNING}, found
    # On a release that could have them they were dropped.
    found = drift.differences(seen[0], replace(seen[1], version=180000), ("old", "new"))
    assert sum(f.severity is Severity.CRITICAL for f in found) == 7


def test_what_an_older_server_or_its_build_lacks_is_noted(database16: Database) -> None:
    database16.execute(
        """
        create table a (id int primary key, x int, y text compression pglz);
        alter table a add constraint one_null unique nulls not distinct (x);
        create unique index one_pair on a (x, y) nulls not distinct;
        comment on constraint one_null on a is 'here'; comment on index one_pair is 'here';
        create table b (id int, x int, foreign key (x) references a on delete set null (x))
            partition by list (id);
        create table b1 partition of b default;
        create unique index b_null on b (id) nulls not distinct;
        """
    )
    with database16.connect() as conn:
        found = read(conn, [TableName("public", "a"), TableName("public", "b")])
        here = replace(there(conn, found, []), version=140000)
    made = make(found, replace(here, compressions=frozenset()), {}, WHOLE)
    assert [" ".join(note.split()[:2]) for note in made.notes] == [
        "column y",
        "constraint one_null",
        "index one_pair",
        "index b_null",
        "index b1_id_idx",
        "foreign key",
    ]
    text = "\n".join(made.statements).lower()
    assert not any(w in text for w in ("distinct", "pglz", "delete set", "'here'", "b1_id_idx"))
    assert "set compression pglz" in "\n".join(make(found, here, {}, WHOLE).statements)


def test_a_key_of_a_table_that_is_missing_waits(new_database: Callable[..., Database]) -> None:
    source, target = new_database(), new_database()
    source.execute("create table a (id int primary key); create table b (id int primary key)")
    source.execute("alter table a add b int references b, add c int references b")
    renamed = {TableName("public", "b"): TableName("x", "bb")}
    made = make_there(source, target, ["a"], renamed)
    assert [(key.name, str(key.to_table)) for key in made.pending] == [
        ("a_b_fkey", "x.bb"),
        ("a_c_fkey", "x.bb"),
    ]
    assert 'REFERENCES "x"."bb"(id)' in made.pending[0].definition
    assert len(made.notes) == 2


def test_partitions_and_children_find_parents_that_are_there(
    new_database: Callable[..., Database],
) -> None:
    source, target = new_database(), new_database()
    parent = """
        create table p (id int primary key, v text) partition by list (id);
        create index p_v on p (v);
        create table b (id int primary key);
    """
    source.execute(
        parent + "create table p1 partition of p for values in (1); alter table b add x int;"
        "create table c (y int) inherits (b)"
    )
    alone = new_database()
    made = make_there(source, alone, ["p1", "c"])
    assert len(made.notes) == 2
    assert alone.value("select count(*) from pg_inherits") == 0
    assert alone.value("select count(*) from pg_indexes where schemaname = 'public'") == 2
    target.execute(parent + "alter table b add x int")
    assert make_there(source, target, ["p1", "c"]).notes == ()
    same(source, target, target)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (
            "create extension vector; create table t (id int primary key, v vector)",
            'create extension "vector"',
        ),
        ("create unlogged table t (id int primary key)", "is unlogged"),
        (
            "create function f() returns int language sql as 'select 1';"
            " create table t (id int primary key, v int default f())",
            "function public.f() does not exist",
        ),
        (
            "create function f() returns trigger language plpgsql as 'begin return new; end';"
            " create table t (id int primary key);"
            " create trigger g before insert on t execute function f()",
            "--create-without triggers",
        ),
        (
            "create table r (a int); create table t (id int primary key, v r)",
            "create table public.r",
        ),
        (
            "create function f(int) returns bool language sql immutable as 'select true';"
            " create domain d as int check (f(value)); create table t (id int primary key, v d[])",
            "function public.f(integer) does not exist, and type public.d",
        ),
        (
            "create function f(int, int) returns float8 language sql immutable as 'select 1.0';"
            " create type r as range (subtype = int, subtype_diff = f);"
            " create table t (id int primary key, v r)",
            "function public.f(integer,integer) does not exist",
        ),
        (
            "create function f(int) returns bool language sql immutable as 'select true';"
            " create table t (id int primary key); alter table t enable row level security;"
            " create policy p on t using (f(id))",
            "--create-without policies",
        ),
        (
            'create collation c1 from "C"; create collation "C 2" from "C";'
            ' create collation c3 from "C"; create collation c4 from "C";'
            ' create collation c5 from "C";'
            " create type r as range (subtype = text, collation = c4);"
            ' create domain d as text collate "C 2"; create type p as (a text collate c3);'
            " create table t (id int primary key, a text collate c1, d d, p p[], r r, b text);"
            " create index on t (b collate c5)",
            "5 objects that the tables need do not exist: collation public.c3,"
            ' collation public."C 2", collation public.c4, collation public.c1,'
            " collation public.c5",
        ),
    ],
    ids=[
        "extension",
        "unlogged",
        "default",
        "trigger",
        "row type",
        "domain",
        "range",
        "policy",
        "collation",
    ],
)
def test_what_cannot_be_made_is_refused(
    schema: str, words: str, new_database: Callable[..., Database], cluster16: Server
) -> None:
    source, target = new_database(on=cluster16), new_database()
    if "extension" in schema:
        name = schema.split()[2].rstrip(";")
        if not source.value("select true from pg_available_extensions where name = %s", name):
            pytest.skip(f"extension {name} is not there")
    source.execute(schema)
    with pytest.raises(UsageError) as raised:
        make_there(source, target, ["t"])
    assert words in f"{raised.value.message} {raised.value.detail} {raised.value.hint}"
    assert target.value("select to_regclass('t')") is None


def test_before_17_a_partition_may_have_an_identity_of_its_own(
    new_database: Callable[..., Database], cluster16: Server
) -> None:
    source, target = new_database(on=cluster16), new_database(on=cluster16)
    source.execute(
        "create table p (id int generated always as identity, v int) partition by list (v);"
        "create table p1 (id int generated by default as identity (start 90), v int);"
        "alter table p attach partition p1 default"
    )
    assert make_there(source, target, ["p"]).notes == ()
    assert target.value("insert into p1 (v) values (1) returning id") == 90
    assert target.value("insert into p (v) values (1) returning id") == 1


COLUMNS = (
    "select array_agg(attname::text order by attnum) from pg_attribute"
    " where attrelid = %s::regclass and attnum > 0"
)


@pytest.mark.parametrize("names", [["p", "c", "late"], ["c", "late"]], ids=["both", "child alone"])
def test_a_child_keeps_the_order_of_its_columns(
    names: list[str], new_database: Callable[..., Database]
) -> None:
    source, target = new_database(), new_database()
    parent = "create table p (id int primary key, a text, constraint p_id check (id > 0));"
    source.execute(
        parent + "create table late (x int) inherits (p); alter table p add z int default 3;"
        "create table c (a text, id int not null, x int, z int, constraint p_id check (id > 0));"
        "alter table c inherit p"
    )
    if "p" not in names:
        target.execute(parent + "alter table p add z int")
    renamed = {TableName("public", "p"): TableName("public", "q")} if "p" in names else {}
    make_there(source, target, names, renamed)
    for child in ("c", "late"):
        assert target.value(COLUMNS, child) == source.value(COLUMNS, child)
    inherited = "select count(*) from pg_inherits where inhparent = %s::regclass"
    assert target.value(inherited, "q" if renamed else "p") == 2


def test_a_check_of_a_renamed_table_keeps_one_name_in_its_partitions(
    new_database: Callable[..., Database],
) -> None:
    source, target = new_database(), new_database()
    source.execute(
        "create table p (id int, constraint p_id check (id > 0)) partition by list (id);"
        "create table part partition of p default"
    )
    make_there(source, target, ["p"], {TableName("public", "p"): TableName("public", "q")})
    names = "select array_agg(distinct conname::text) from pg_constraint where conrelid <> 0"
    names += " and contype = 'c'"
    assert target.value(names) == ["q_id"]


def test_parts_can_be_left_out(new_database: Callable[..., Database]) -> None:
    source, target = new_database(), new_database()
    source.execute(FUNCTIONS + SCHEMA)
    make_there(source, target, ["app.everything"], parts=frozenset({Part.TYPES}))
    assert target.value("select count(*) from pg_trigger") == 0
    assert (
        target.value("select count(*) from pg_index where indrelid = 'app.everything'::regclass")
        == 1
    )
    assert target.value("select count(*) from pg_policy") == 0
    # What a column is stays: identity and generated, not a default that needs a function.
    assert target.value("select count(*) from pg_attrdef") == 3


_ROLES = """
do $$ begin
    create role schema_owner; create role table_owner; create role schema_member;
    grant schema_owner, table_owner to schema_member;
exception when duplicate_object then
end $$
"""


@pytest.mark.parametrize("role", ["schema_member", ""], ids=["member", "superuser"])
def test_a_created_schema_gets_its_owner_and_grants(
    role: str, new_database: Callable[..., Database], cluster16: Server
) -> None:
    source, target = new_database(on=cluster16), new_database()
    for database in (source, target):
        database.execute(_ROLES)
    source.execute(
        """
        do $$ begin create role only_here; exception when duplicate_object then end $$;
        create schema s authorization schema_owner; create schema "T";
        grant usage on schema s to some_reader, only_here;
        grant usage on schema s to table_owner with grant option;
        set role schema_owner;
        create type s.mood as enum ('happy');
        create table s.p (id int primary key, m s.mood) partition by range (id);
        create table s.p1 partition of s.p default;
        reset role;
        create table s.o (id int primary key); alter table s.o owner to table_owner;
        create table "T".x (id int primary key); alter table "T".x owner to table_owner;
        """
    )
    target.execute(
        'create schema "T"; grant all on schema "T" to schema_member;'
        f"grant create on database {target.name} to schema_member"
    )
    made = make_there(source, target, ["s.p", "s.o", "T.x"], role=role)
    schema = "select nspowner::regrole::text from pg_namespace where nspname = 's'"
    assert target.value(schema) == "schema_owner"
    usage = "select has_schema_privilege(%s, 's', %s)"
    assert target.value(usage, "some_reader", "USAGE")
    assert target.value(usage, "table_owner", "USAGE WITH GRANT OPTION")
    assert not target.value(usage, "some_reader", "CREATE")
    owners = dict(target.execute("select relname::text, relowner::regrole::text from pg_class"))
    assert (owners["p"], owners["p1"]) == ("schema_owner", "schema_owner")
    theirs = role or "table_owner"
    assert (owners["o"], owners["x"]) == (theirs, theirs)
    grant = 'grant create on schema "%s" to "table_owner"'
    said = [grant % name for name in ("T", "s") if role]
    assert [text for text in said if text in "\n".join(made.notes)] == said
    assert "role only_here does not exist: its privileges are skipped" in made.notes
    assert len(made.notes) == len(said) + 1


def test_a_schema_whose_owner_cannot_be_set_belongs_to_you(
    new_database: Callable[..., Database],
) -> None:
    source, target = new_database(), new_database()
    source.execute(_ROLES)
    source.execute(
        "create schema s; create table s.t (id serial primary key);"
        "alter table s.t owner to schema_owner"
    )
    target.execute(f"grant create on database {target.name} to schema_member")
    renamed = {TableName("s", "t"): TableName("S 2", "t")}
    made = make_there(source, target, ["s.t"], renamed, role="schema_member")
    schema = "select nspowner::regrole::text from pg_namespace where nspname = 'S 2'"
    assert target.value(schema) == "schema_member"
    owner = source.value("select current_user::text")
    assert made.notes[0] == (
        f"schema S 2 is owned by you: its owner, role {owner}, cannot be set by you"
    )
    assert len(made.notes) == 2
