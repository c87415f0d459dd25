"""Scripts are split where the server would split them; unsupported parts are refused."""

from __future__ import annotations

import pytest

from londiste.db.names import TableName
from londiste.errors import BadOption
from londiste.replication.ddl.classify import StatementTiming, index_build, parts
from londiste.replication.ddl.header import Attributes, fill, hide
from londiste.replication.ddl.split import split


def texts(script: str) -> list[str]:
    return [statement.text for statement in split(script)]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        (";;; -- nothing\n;", []),
        ("select 1", ["select 1"]),
        ("select ';'; select E'\\';'; select $$;$$;", None),
        ("select $a$ $b$ ; $a$; select 'it''s;'", None),
        ('select 1 as ";"; select U&"\\0041;"', None),
        ("select U&'\\0041;' uescape '!'; select b'1', x'f', n';'", None),
        ("select 1 /* a /* ; */ ; */ + 1; select 2 -- ;\n + 1", None),
        ("select 1 +-- ;\n 2; /*+ hint; */ select 3", ["select 1 +-- ;\n 2", "select 3"]),
        ("create rule r as on insert to t do also (select 1; select 2); select 3", None),
        (
            "create function f() returns int begin atomic select 1; select case when true then"
            " case 1 when 1 then 2 end end; select 3 as end; end; select 4",
            None,
        ),
        ("create function f() returns int language sql as 'select 1; select 2'; select 3", None),
        ("do $x$ begin perform 1; end $x$; select 2", None),
        ('select t."end" from begin_atomic; select case when true then 1 end; select 2', None),
        ("select é, ｔ; select a$b$; select c$b$", None),
        ("select $1; select $$;$$ || $é$;$é$; select 1", None),
    ],
)
def test_statements_are_cut_as_the_server_cuts_them(
    script: str, expected: list[str] | None
) -> None:
    if expected is None:
        # Every cut is a semicolon and a blank outside of all quotes, in front of a keyword.
        assert "; ".join(texts(script)).replace("; /*+", ";/*+") == script.rstrip("; ")
        if "language sql" in script:
            assert len(texts(script)) == 2
    else:
        assert texts(script) == expected


@pytest.mark.parametrize(
    ("script", "count"),
    [
        ("select ';'; select E'\\';'; select $$;$$;", 3),
        ("create rule r as on insert to t do also (select 1; select 2); select 3", 2),
        ("create function f() returns int begin atomic select 1; select 2; end; select 4", 2),
        ("do $x$ begin perform 1; end $x$; select 2", 2),
        ("select 1 /* a /* ; */ ; */ + 1; select 2 -- ;\n + 1", 2),
        ("select a$b$; select c$b$", 2),
    ],
)
def test_as_many_statements_as_the_server_sees(script: str, count: int) -> None:
    assert len(split(script)) == count


def test_a_statement_knows_its_number_and_line() -> None:
    found = split("\n-- a comment\nselect 1;\n\n  select\n2")
    assert [(s.number, s.line, s.shown) for s in found] == [(1, 3, "select 1"), (2, 5, "select 2")]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("select 1; \\d t", "line 1: \\d is a psql command"),
        ("\\i other.sql", "is a psql command"),
        ("copy t from stdin;\n1\n\\.\n", "rows after COPY FROM stdin"),
        ("select 1;\ncopy t (a) from stdin with csv", "line 2: rows after COPY FROM stdin"),
        ("copy t to stdout", "COPY TO stdout"),
        ("set standard_conforming_strings = off", "cannot change standard_conforming_strings"),
        ("select 'open", "cannot be read"),
        ("select $x$ open", None),
        ("select 'a\0b'", "zero byte"),
    ],
)
def test_what_is_no_script_for_a_server_is_refused(script: str, said: str | None) -> None:
    if said is None:
        return
    with pytest.raises(BadOption, match=None) as caught:
        split(script)
    assert said in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("script", "ways"),
    [
        ("create table a (i int); alter table a add column j int", [StatementTiming.BATCH]),
        ("alter type e add value if not exists 'x' before 'y'", [StatementTiming.FIRST]),
        (
            "alter type e rename value 'x' to 'y'; alter type e add attribute a int",
            [StatementTiming.BATCH],
        ),
        ("vacuum (full) t; vacuum", [StatementTiming.AFTER, StatementTiming.AFTER]),
        (
            "create index i on t (a); create index concurrently j on t (a)",
            [StatementTiming.BATCH, StatementTiming.AFTER],
        ),
        (
            "create unique index concurrently if not exists j on only s.t (a)",
            [StatementTiming.AFTER],
        ),
        (
            "drop index concurrently if exists a.b; drop index c",
            [StatementTiming.AFTER, StatementTiming.BATCH],
        ),
        (
            "reindex table t; reindex (verbose) table concurrently t",
            [StatementTiming.BATCH, StatementTiming.AFTER],
        ),
        (
            'create table "concurrently" (i int); create index i on "concurrently" (i)',
            [StatementTiming.BATCH],
        ),
    ],
)
def test_a_script_is_cut_into_parts_by_how_they_run(
    script: str, ways: list[StatementTiming]
) -> None:
    found = parts("a.sql", script)
    assert [part.way for part in found] == ways
    names = ["a.sql"] if len(ways) == 1 else [f"a.sql/{n}" for n in range(1, len(ways) + 1)]
    assert [part.name for part in found] == names


@pytest.mark.parametrize(
    "script",
    [
        "begin",
        "commit",
        "start transaction",
        "rollback to a",
        "savepoint a",
        "prepare transaction 'x'",
        "set transaction isolation level serializable",
        "alter system set work_mem = '1MB'",
        "create database x",
        "drop tablespace x",
        "reindex database x",
        "alter table t detach partition p concurrently",
        "create index concurrently on t (a)",
        "drop index concurrently a, b",
        "set local session_replication_role = replica",
        "listen x",
        "cluster",
        "-- nothing",
    ],
)
def test_what_cannot_be_carried_is_refused_with_a_hint(script: str) -> None:
    with pytest.raises(BadOption) as caught:
        parts("a.sql", script)
    assert caught.value.hint


def test_what_an_interrupted_build_leaves_is_known_by_name() -> None:
    (build,) = (
        index_build(s)
        for s in split('create unique index concurrently if not exists "I" on only s."T" (a)')
    )
    assert build is not None
    assert (build.kind, build.index, build.table) == ("create", ("I",), ("s", "T"))


def test_attributes_are_read_from_the_head_only() -> None:
    script = (
        "-- a comment\n\n--*-- Local-Table: public.a,\n--*--  public.b c\n"
        "--*-- need-function: f(2)\nselect 1;\n--*-- Need-Table: x\n"
    )
    attributes = Attributes.of_script(script)
    text = attributes.encode()
    assert text == "local-table=public.a%2Cpublic.b%20c&need-function=f%282%29"
    assert Attributes.decode(text) == attributes
    assert attributes.placeholders() == ["public.a", "public.b c"]
    assert Attributes.of_script("select 1").encode() is None


@pytest.mark.parametrize(
    "head", ["--*-- Nothing: a", "--*-- need-table", "--*-- need-table:", "--*-- need-table: a,"]
)
def test_attributes_that_mean_nothing_are_refused(head: str) -> None:
    with pytest.raises(BadOption):
        Attributes.of_script(head + "\nselect 1")


@pytest.mark.parametrize(
    ("there", "runs"), [({"a", "b"}, True), (set(), False), ({"a"}, None), ({"b"}, None)]
)
def test_all_conditions_hold_or_none(there: set[str], runs: bool | None) -> None:
    attributes = Attributes.of_script("--*-- Need-Table: a\n--*-- Need-Schema: b\n")
    if runs is None:
        with pytest.raises(BadOption, match="partially matches"):
            attributes.decide(lambda _, value: value in there, "s")
    else:
        assert attributes.decide(lambda _, value: value in there, "s") is runs


def test_placeholders_stand_for_quoted_names_and_hide_nothing_else() -> None:
    script = "alter table @s.a;b@ add x int; select 1"
    hidden = hide(script, ["s.a;b"])
    assert len(hidden) == len(script)
    assert [part.text for part in parts("a", hidden, script)] == [script]
    assert len(split(hidden)) == 2
    assert fill(script, {"s.a;b": TableName("s", 'a"b')}).startswith('alter table "s"."a""b" add')
