"""Checks of londiste doctor that no test server can be damaged for, and their documentation."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from londiste.db.names import TableName
from londiste.db.structure.types import Extension
from londiste.migrate.checks import owner_findings
from londiste.migrate.rights import Grant, Rights, RightsState
from londiste.monitor.doctor.checks import ALL
from londiste.monitor.doctor.examine import run_checks
from londiste.monitor.doctor.facts import (
    ColumnFacts,
    DatabaseFacts,
    MoreFacts,
    Object,
    SqlState,
    Table,
)
from londiste.monitor.doctor.fix_script import fix_script
from londiste.monitor.doctor.situation import ProgramFacts, Situation
from londiste.monitor.queues.model import Finding

ROOT = Path(__file__).parents[3]
T = Table(TableName("public", "t"), bytes=1000)
MORE = MoreFacts(dsn="dbname=a", database="a", free_bytes=10_000_000)
FACTS = DatabaseFacts(user="me", tables=(T,), more=MORE)
HEALTHY = Situation(FACTS, FACTS)
SCHEMA = 'create schema if not exists "ext"'


def kinds(pair: Situation) -> set[tuple[str, str, str]]:
    return {(one.kind, one.severity.word, one.side) for one in run_checks(pair)}


def changed(facts: DatabaseFacts, **values: Any) -> DatabaseFacts:
    """The facts with other values; those of MoreFacts go there."""
    inner = {key: value for key, value in values.items() if hasattr(facts.more, key)}
    outer = {key: value for key, value in values.items() if key not in inner}
    return replace(facts, **outer, more=replace(facts.more, **inner))


def test_healthy_facts_give_no_finding() -> None:
    assert kinds(HEALTHY) == set()
    assert kinds(Situation(FACTS)) == set()


def test_a_replicated_table_of_the_source_is_changed_on_all_nodes() -> None:
    more, key = replace(T, columns=(*T.columns, ColumnFacts("c d"))), ColumnFacts("id", key=1)
    for other, add, before in (
        (more, 'add column {}"c d" integer', ""),
        (replace(T, columns=(key,)), 'add primary key ("id")', "drop the primary key; then, "),
    ):
        statement = f'alter table "public"."t" {add}'
        pair = replace(HEALTHY, target=changed(FACTS, tables=(other,)))
        (plain,) = run_checks(pair)
        assert plain.do.endswith(f"source database: {statement.format('')}")
        pair = replace(pair, source=changed(FACTS, replicated=frozenset({T.name})))
        (found,) = (one for one in run_checks(pair) if one.kind == "structure")
        assert not found.sql and before in found.do
        command = f"londiste execute --sql '{statement.format('if not exists ')}'"
        assert found.do.endswith(f": {command}") and "settings of the root" in found.do


def test_a_deferrable_key_of_a_replicated_table_is_created_again_on_all_nodes() -> None:
    late = changed(
        FACTS, tables=(replace(T, deferrable={"name": "k$$", "definition": "PRIMARY KEY (id)"}),)
    )
    (alone,) = run_checks(Situation(late))
    assert alone.kind == "deferrable" and alone.do.startswith("in the source database: alter table")
    (found,) = run_checks(Situation(changed(late, replicated=frozenset({T.name}))))
    assert not found.sql
    do, script = shlex.split(found.do)[:-1], shlex.split(found.do)[-1]
    assert " ".join(do) == "with the settings of the root: londiste execute --sql"
    # Foreign keys of another node may refer to its key, which then is not deferrable.
    assert script.startswith("do $x$ begin if exists (") and script.endswith("end if; end $x$")
    assert 'add constraint "k$$" PRIMARY KEY (id); end' in script


def test_a_fix_of_a_structure_names_its_side() -> None:
    for mine, theirs in (
        (ColumnFacts("c", "bigint"), ColumnFacts("c", "integer")),
        (ColumnFacts("c", "text"), ColumnFacts("c", "json")),
        (ColumnFacts("c"), ColumnFacts("c", generated="s")),
        (ColumnFacts("c", generated="s"), ColumnFacts("c")),
        (ColumnFacts("c"), ColumnFacts("d", required=True)),
        (ColumnFacts("c", key=1), ColumnFacts("c")),
    ):
        source, target = (
            changed(FACTS, tables=(replace(T, columns=(c,)),)) for c in (mine, theirs)
        )
        found = [one for one in run_checks(Situation(source, target)) if one.kind == "structure"]
        assert found and all("in the target database: " in one.do for one in found), found
        assert {one.side for one in found} == {"target"}


BOTH = ("source", "target")


@pytest.mark.parametrize(
    ("values", "kind", "severity", "sides"),
    [
        ({"version": 130000}, "version", "critical", BOTH),
        ({"version": 190000}, "version", "critical", BOTH),
        ({"standby": True}, "standby", "critical", BOTH),
        (
            {"missing_roles": ("pgq_reader",), "makes_roles": False},
            "roles",
            "critical",
            BOTH,
        ),
        ({"administers": False}, "administration", "critical", BOTH[:1]),
        (
            {"administers": False, "owns_installed": False},
            "administration",
            "critical",
            BOTH,
        ),
        ({"named_roles": frozenset({"boss"})}, "owners", "warning", ("source",)),
        ({"server_free": 9}, "connections", "warning", BOTH),
        ({"server_free": -1}, "connections", "critical", BOTH),
        ({"address": "10.1.1.1", "encrypted": False}, "connection", "warning", BOTH),
        ({"settings": {"transaction_timeout": "5000"}}, "statement-timeout", "ok", BOTH),
        ({"settings": {"synchronous_commit": "off"}}, "synchronous-commit", "warning", BOTH[:1]),
        ({"free_bytes": 1999}, "space", "warning", ("target",)),
        ({"free_bytes": 999}, "space", "critical", ("target",)),
        ({"free_bytes": None}, "space-unknown", "ok", ("target",)),
        ({"tables": (replace(T, exclusions=("x",)),)}, "exclusion", "ok", BOTH[:1]),
        ({"subscriptions": 1}, "publications", "warning", ("target",)),
        ({"sql": SqlState(outdated=("pgq",))}, "sql-version", "warning", BOTH),
        ({"sql": SqlState(londiste3=("pgq",), extension=True)}, "londiste3", "critical", BOTH),
        ({"sql": SqlState(refused=("newer", "upgrade"))}, "sql-refused", "critical", BOTH),
    ],
)
def test_facts_of_one_side(
    values: dict[str, object], kind: str, severity: str, sides: tuple[str, ...]
) -> None:
    wrong = changed(FACTS, **values)
    for side in BOTH:
        pair = replace(HEALTHY, **{side: wrong})
        found = {one for one in kinds(pair) if one[0] == kind}
        # What one side lacks may be said of the other.
        assert bool(found) is (side in sides), side
        assert {level for _, level, _ in found} <= {severity}


@pytest.mark.parametrize(
    ("powerful", "statement"),
    [
        ((), 'grant "boss" to "me"'),
        (("boss",), 'alter table "public"."t" owner to "me"'),
    ],
)
def test_no_role_of_an_administrator_is_granted(powerful: tuple[str, ...], statement: str) -> None:
    table = replace(T, mine=False, owner="boss")
    facts = changed(FACTS, user="me", tables=(table,), powerful=frozenset(powerful))
    (found,) = [one for one in run_checks(Situation(facts)) if one.kind == "owner"]
    assert found.sql == (statement,) and statement in found.do
    assert ("make me an administrator" in found.why) is bool(powerful)


GRANT, ALTER = 'grant "boss" to "me"', 'alter role "me" inherit'


@pytest.mark.parametrize(
    ("version", "inherits", "member", "statements"),
    [
        (150000, True, False, (GRANT,)),
        (150000, False, False, (GRANT, ALTER)),
        (150000, False, True, (ALTER,)),
        # By way of another role, which does not inherit.
        (150000, True, True, (GRANT,)),
        (160000, True, False, (GRANT,)),
        (160000, False, False, (f"{GRANT} with inherit true",)),
        (160000, False, True, (f"{GRANT} with inherit true",)),
        (160000, True, True, (f"{GRANT} with inherit true",)),
    ],
)
def test_a_member_without_the_rights_of_the_role_gets_them(
    version: int, inherits: bool, member: bool, statements: tuple[str, ...]
) -> None:
    tables = tuple(
        replace(T, name=TableName("public", name), mine=False, owner="boss") for name in "abc"
    )
    values = {"inherits": inherits, "uninherited": frozenset({"boss"} if member else ())}
    facts = changed(FACTS, user="me", version=version, tables=tables, **values)
    (found,) = [one for one in run_checks(Situation(facts)) if one.kind == "owner"]
    assert found.sql == statements and found.object == "public.a, public.b, public.c"
    assert "3 tables belong to boss: public.a, public.b, public.c" in found.what
    assert ("does not inherit its rights" in found.why) is member


@pytest.mark.parametrize(
    ("powerful", "shown"),
    [((), 'grant "boss" to "me"'), (("boss",), "migrate with a superuser of the new server")],
)
def test_migrate_grants_no_role_of_an_administrator(powerful: tuple[str, ...], shown: str) -> None:
    code = Rights("function", "public.f()", "boss", definer="code")
    view = Rights("view", "public.v", "boss", definer="view")
    old = RightsState({one.key: one for one in (code, view)})
    new = RightsState({}, {"boss": False})
    facts = changed(FACTS, user="me", roles=frozenset({"boss"}), powerful=frozenset(powerful))
    found = list(owner_findings(old, new, facts, False))
    assert [one.kind for one in found] == ["definers", "rights"]
    assert all(shown in one.do for one in found)
    assert any("grant" in one.do for one in found) is not bool(powerful)
    assert [one.sql for one in found] == [() if powerful else (shown,), ()]


def test_migrate_foresees_an_owner_who_may_not_create_in_a_schema() -> None:
    code = Rights("function", "public.f()", "app_rw", definer="code")
    there = [code, Rights("sequence", '"my.S".s', "app_rw"), Rights("sequence", "made.s", "app_rw")]
    closed = {"app_rw": frozenset({"public", '"my.S"'})}
    new = RightsState({}, {"app_rw": True}, closed=closed)
    facts = changed(FACTS, user="me")
    found = list(owner_findings(RightsState({o.key: o for o in there}), new, facts, False))
    assert [(one.kind, one.sql) for one in found] == [
        ("definers", ('grant create on schema public to "app_rw"',)),
        ("rights", ('grant create on schema "my.S" to "app_rw"',)),
    ]
    assert all("role app_rw, which may not create in schema" in one.why for one in found)
    # The migration restores such a grant itself.
    schema = Rights("schema", "public", "app_rw", grants=(Grant("app_rw", "CREATE"),))
    old = RightsState({o.key: o for o in (code, schema)})
    assert list(owner_findings(old, new, facts, False)) == []


@pytest.mark.parametrize(
    ("seconds", "spread", "wrong"),
    [(1.0, 0.0, None), (3.0, 0.0, "target"), (3.0, 1.5, None), (-3.0, 0.1, "target")],
)
def test_clocks_may_differ_by_less_than_the_measurement(
    seconds: float, spread: float, wrong: str | None
) -> None:
    pair = replace(HEALTHY, target=changed(FACTS, clock=seconds, spread=spread))
    assert {side for _, _, side in kinds(pair)} == ({wrong} if wrong else set())
    assert kinds(replace(pair, source=pair.target)) == set()  # type: ignore[arg-type]


def test_engine_is_checked_if_it_is_spark() -> None:
    missing = ProgramFacts("spark", java=("no Java", "install one"), spark=("no Spark", ""))
    assert kinds(replace(HEALTHY, program=missing)) == {
        ("java", "warning", ""),
        ("spark", "warning", ""),
    }
    large = changed(FACTS, tables=(replace(T, bytes=1 << 30),), free_bytes=1 << 40)
    found = kinds(Situation(large, FACTS, program=missing))
    assert {level for kind, level, _ in found if kind in {"java", "spark"}} == {"critical"}
    assert kinds(replace(HEALTHY, program=replace(missing, engine="local"))) == set()


def test_older_target_lacks_features() -> None:
    scale = replace(T, columns=(ColumnFacts("id", key=1), ColumnFacts("n", "numeric(5,-2)")))
    source = changed(FACTS, tables=(scale,))
    assert kinds(Situation(source, replace(source, version=140000))) == {
        ("older", "warning", "target"),
        ("type", "critical", "target"),
    }


def test_older_target_reads_other_bytes() -> None:
    def facts(kind: str, version: int) -> DatabaseFacts:
        columns = (ColumnFacts("id", key=1), ColumnFacts("c", kind))
        return changed(FACTS, tables=(replace(T, columns=columns),), version=version)

    wrong = {("older", "warning", "target"), ("type", "critical", "target")}
    assert kinds(Situation(facts('"char"', 150000), facts('"char"', 140000))) == wrong
    assert kinds(Situation(facts('"char"', 140000), facts('"char"', 140000))) == set()
    found = kinds(Situation(facts('"char"', 150000), facts("text", 140000)))
    assert ("type", "critical", "target") not in found


def test_target_without_libxml_stores_no_xml() -> None:
    def facts(kind: str, xml: bool) -> DatabaseFacts:
        columns = (ColumnFacts("id", key=1), ColumnFacts("x", kind))
        return changed(FACTS, tables=(replace(T, columns=columns),), xml=xml)

    (found,) = run_checks(Situation(facts("xml[]", True), facts("xml[]", False)))
    assert (found.kind, found.severity.name, found.side) == ("type", "CRITICAL", "target")
    assert "built without libxml" in found.why
    assert found.sql == ('alter table "public"."t" alter column "x" type text[]',)
    # Missing tables are created with it.
    missing = replace(facts("xml", False), tables=())
    assert ("type", "critical", "target") in kinds(Situation(facts("xml", True), missing))
    # The source has no value of it either.
    assert kinds(Situation(facts("xml", False), facts("xml", False))) == set()
    # Changed as the finding says: nothing advises the way back.
    (found,) = run_checks(Situation(facts("xml", True), facts("text", False)))
    assert (found.kind, found.sql) == ("structure", ()) and "alter" not in found.do
    (found,) = run_checks(Situation(facts("xml", True), facts("text", True)))
    assert "::xml" in found.do


def test_extension_that_is_not_offered() -> None:
    source = changed(FACTS, objects=(Object("extension", None, "hstore", "hstore", None),))
    assert kinds(Situation(source, FACTS)) == {("extension", "critical", "target")}


@pytest.mark.parametrize(
    ("theirs", "spaces", "statements"),
    [
        (None, [], [SCHEMA, 'create extension "citext" schema "ext"']),
        (None, ["ext"], ['create extension "citext" schema "ext"']),
        ("ext", [], None),
        ("public", ["ext"], ['alter extension "citext" set schema "ext"']),
        ("public", [], [SCHEMA, 'alter extension "citext" set schema "ext"']),
        ("fixed", [], []),
    ],
)
def test_extensions_are_in_the_schema_of_the_source(
    theirs: str | None, spaces: list[str], statements: list[str] | None
) -> None:
    def facts(place: str | None, *schemas: str) -> DatabaseFacts:
        objects = [Object("schema", None, name, name, None) for name in schemas]
        objects += [Object("extension", None, "citext", "citext", None)] if place else []
        found = {"citext": Extension("citext", place, place != "fixed")} if place else {}
        return changed(
            FACTS, objects=tuple(objects), extensions_at=found, extensions=frozenset(["citext"])
        )

    pair = Situation(facts("ext"), facts(theirs, *spaces))
    found = [list(one.sql) for one in run_checks(pair)]
    assert found == ([] if statements is None else [statements])


def test_column_without_the_identity_of_the_source() -> None:
    def facts(column: ColumnFacts) -> DatabaseFacts:
        return changed(FACTS, tables=(replace(T, columns=(column,)),))

    identity = facts(ColumnFacts("id", identity=True, key=1))
    for column, wrong in (
        (ColumnFacts("id", identity=True, key=1), False),
        (ColumnFacts("id", key=1), False),
        (ColumnFacts("id", required=True, key=1), True),
    ):
        found = kinds(Situation(identity, facts(column)))
        assert found == ({("structure", "warning", "target")} if wrong else set())


def test_replicated_tables_need_no_space_and_no_owner() -> None:
    part = replace(T, name=TableName("public", "t_1"), partition=True, root=T.name)
    facts = changed(FACTS, tables=(replace(T, kind="p"), part))
    there = {"free_bytes": 1, "replicated": frozenset({T.name})}
    pair = Situation(facts, changed(facts, **there))
    assert kinds(pair) == set()
    others = changed(facts, tables=tuple(replace(t, mine=False) for t in facts.tables))
    assert kinds(replace(pair, source=others)) == {("owner", "critical", "source")}
    assert kinds(replace(pair, source=changed(others, **there))) == set()


def test_script_has_each_statement_once_and_comments_what_deletes() -> None:
    def one(sql: str, **more: Any) -> Finding:
        return next(
            replace(f, sql=(sql,), side="target", **more)
            for f in run_checks(replace(HEALTHY, same=True))
        )

    made = fix_script(
        [one("alter a"), one("alter a"), one("truncate t"), one("grant x", admin=True)],
        {"source": "dbname=s", "target": 'dbname="t"'},
    )
    assert made.count("alter a;") == 1
    assert "\n-- truncate t;" in made
    assert "dbname=s" not in made
    assert '\\connect "dbname=""t"""' in made
    assert fix_script([], {"source": "dbname=s"}) == ""


def test_script_begins_with_what_the_user_who_connects_may_not_do() -> None:
    mine, admins = (
        replace(next(iter(run_checks(replace(HEALTHY, same=True)))), sql=(sql,), side=side, admin=a)
        for sql, side, a in (("alter a", "source", False), ("grant x", "target", True))
    )
    dsn = "host=h user=repl password=p sslkey=k options='-c role=x' dbname={} port=5433"
    made = fix_script([mine, admins], {"source": "dbname=s", "target": dsn.format("t")})
    lines = [line for line in made.splitlines() if line and not line.startswith(("--", "set "))]
    connect, grant, *mine_lines = lines
    assert (grant, mine_lines) == ("grant x;", ['\\connect "dbname=s"', "alter a;"])
    word, reuse, words = connect.split(maxsplit=2)
    assert (word, reuse) == ("\\connect", "-reuse-previous=on")
    assert set(words.strip('"').split()) == {"host=h", "dbname=t", "port=5433"}


def test_no_name_of_an_object_becomes_a_command_of_the_script() -> None:
    evil = 'x"\n\\! touch /tmp/owned\r\ndrop table item;\x1b[2J'
    name = TableName(f"a.{evil}", evil)
    facts = changed(
        FACTS,
        tables=(
            replace(T, name=name, keyed=False),
            replace(T, name=TableName("public", evil), keyed=False),
        ),
    )
    found = [*run_checks(Situation(facts))]
    found += [replace(found[0], sql=(f"truncate {name.quoted}",))]
    made = fix_script(found, {"source": f"dbname='{evil}'"})
    assert {one.kind for one in found} == {"name", "key"}
    lines = made.splitlines()
    assert lines
    assert [line for line in lines if line and not line.startswith("-- ")] == [
        "set standard_conforming_strings = on;"
    ]
    assert "\x1b" not in made


def test_a_schema_is_quoted_in_its_new_name() -> None:
    facts = changed(FACTS, tables=(replace(T, name=TableName('a.b"; drop table t; --', "t")),))
    made = fix_script(run_checks(Situation(facts)), {"source": "dbname=s"})
    quoted = 'alter schema "a.b""; drop table t; --" rename to "a_b""; drop table t; --";'
    assert f"\n{quoted}\n" in made


IDS = [kind for one in ALL for kind in one.FINDINGS]


def test_ids_are_unique() -> None:
    assert len(IDS) == len(set(IDS))


def test_each_finding_has_a_section_and_each_section_a_finding() -> None:
    page = (ROOT / "docs/reference/doctor.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"(?m)^### `([a-z0-9-]+)`$", page)) == sorted(IDS)


def test_ids_in_the_checks_are_declared() -> None:
    for one in ALL:
        text = Path(str(one.__file__)).read_text(encoding="utf-8")  # type: ignore[attr-defined]
        used = set(re.findall(r'Severity\.[A-Z]+[^\n]*,\n\s+"([a-z0-9-]+)",', text))
        assert used <= set(one.FINDINGS), one


def test_a_table_without_key_is_no_obstacle_where_whole_rows_are_replicated() -> None:
    pair = replace(HEALTHY, source=changed(FACTS, tables=(replace(T, keyed=False),)))
    for whole_rows, why in ((False, "add-table refuses it"), (True, "by all their columns")):
        found = [
            one for one in run_checks(replace(pair, whole_rows=whole_rows)) if one.kind == "key"
        ]
        assert [one.why.startswith(why) or why in one.why for one in found] == [True]
        assert ("--whole-row" in found[0].do) is not whole_rows
