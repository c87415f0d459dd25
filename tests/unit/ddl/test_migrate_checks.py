"""Findings that prevent a migration, computed from the facts of two databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from londiste.cascade.model import NodeType
from londiste.cascade.switching.operation_log import Operation, OperationKind
from londiste.db.names import TableName
from londiste.migrate.checks import findings, refusals
from londiste.migrate.databases import MigrateSettings, pair
from londiste.migrate.pg_dump import for_any_release
from londiste.migrate.phase import NEXT, Phase, PhaseFacts, phase, takes_writes
from londiste.migrate.schema_copy import SchemaMethod, choose, missing_in
from londiste.migrate.switching import way_out
from londiste.monitor.doctor.facts import ColumnFacts, DatabaseFacts, MoreFacts, Object, Table

T = Table(TableName("public", "t"))
FACTS = DatabaseFacts(tables=(T,))


def kinds(
    old: DatabaseFacts = FACTS,
    new: DatabaseFacts = FACTS,
    way: SchemaMethod = SchemaMethod.PG_DUMP,
    held: tuple[str, ...] = (),
) -> set[tuple[str, str]]:
    return {(f.kind, f.severity.word) for f in findings(old, new, way, held=held)} - {
        ("space-unknown", "ok")
    }


def test_two_databases_that_fit_each_other_give_no_finding() -> None:
    assert kinds() == set()
    assert refusals(findings(FACTS, FACTS, SchemaMethod.PG_DUMP)) == []


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"version": 130000}, ("version", "critical")),
        ({"version": 190000}, ("version", "critical")),
        ({"standby": True}, ("standby", "critical")),
        ({"read_only": True}, ("read-only", "critical")),
        ({"missing_roles": ("pgq_reader",), "makes_roles": False}, ("roles", "critical")),
        ({"makes_schemas": False}, ("create", "critical")),
        ({"prepared": 2}, ("prepared", "warning")),
    ],
)
def test_settings_of_both_servers_are_checked(
    changed: dict[str, object], found: tuple[str, str]
) -> None:
    wrong = replace(FACTS, **changed)  # type: ignore[arg-type]
    assert found in kinds(old=wrong)
    assert found in kinds(new=wrong)


def test_no_finding_if_roles_exist_or_can_be_created() -> None:
    lacking = replace(FACTS, missing_roles=("pgq_reader",))
    assert kinds(old=lacking) == set()
    installed = replace(lacking, makes_roles=False, installed=("pgq",))
    assert kinds(old=installed) == set()


def test_migration_and_return_need_the_replica_role() -> None:
    without = replace(FACTS, replica=False)
    assert kinds(new=without) == {("replica", "critical")}
    assert kinds(old=without) == {("replica", "critical")}


@pytest.mark.parametrize(
    ("version", "function", "statements"),
    [
        (180000, "missing", ["grant set"]),
        (150000, "refused", ["grant set"]),
        (140000, "missing", ["alter function", "grant londiste_writer"]),
        (140000, "powerless", ["alter function", "grant londiste_writer"]),
        (140000, "refused", ["grant londiste_writer"]),
    ],
)
def test_grant_for_the_replica_role_is_in_the_hint(
    version: int, function: str, statements: list[str]
) -> None:
    old = replace(FACTS, replica=False, version=version, replica_function=function, user="Me")
    (found,) = refusals(findings(old, FACTS, SchemaMethod.CREATE))
    said, _, text = found.do.partition(": ")
    assert [s.strip()[: len(w)] for s, w in zip(text.split(";"), statements, strict=True)] == (
        statements
    )
    assert text.endswith('to "Me"')
    assert ("londiste install" in said) == (version < 150000 and function == "missing")


@pytest.mark.parametrize(
    ("table", "found"),
    [
        (replace(T, keyed=False), ("key", "ok")),
        (replace(T, keyed=False, rows=200_000), ("key", "warning")),
        (replace(T, persistence="u"), ("unlogged", "warning")),
        (replace(T, mine=False), ("owner", "critical")),
        (replace(T, name=TableName("a.b", "t")), ("name", "critical")),
        (replace(T, always=("t1",)), ("always", "warning")),
        (replace(T, columns=()), ("columns", "warning")),
    ],
)
def test_tables_of_the_old_database_are_checked(table: Table, found: tuple[str, str]) -> None:
    assert found in kinds(old=replace(FACTS, tables=(table,)))


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ({"encoding": "UTF8"}, {"encoding": "LATIN1"}, ("encoding", "critical")),
        ({"encoding": "SQL_ASCII"}, {}, ("encoding", "warning")),
        ({"collate": "de_DE.UTF-8"}, {}, ("collation", "warning")),
        ({"version": 180000}, {"version": 160000}, ("older", "warning")),
        ({"named_roles": frozenset({"boss"})}, {}, ("owners", "warning")),
        ({"large_objects": 3}, {}, ("large-objects", "warning")),
        ({"publications": 1}, {}, ("publications", "warning")),
        ({"oldest_transaction": 100.0}, {}, ("transaction", "warning")),
        ({"hidden_sequences": ("public.s",)}, {}, ("sequence", "critical")),
    ],
)
def test_both_are_held_against_each_other(
    old: dict[str, object], new: dict[str, object], found: tuple[str, str]
) -> None:
    assert found in kinds(replace(FACTS, **old), replace(FACTS, **new))  # type: ignore[arg-type]


def test_rows_in_the_new_database_forbid_the_move() -> None:
    assert kinds(held=("public.t",)) == {("rows", "critical")}


def test_an_extension_has_to_be_to_be_had() -> None:
    old = replace(FACTS, objects=(Object("extension", None, "hstore", "hstore", "create …"),))
    assert ("extension", "critical") in kinds(old=old)
    assert kinds(old=old, new=replace(FACTS, extensions=frozenset({"hstore"}))) == set()


def test_objects_that_are_not_created_are_named() -> None:
    function = Object("function", "public", "f", "public.f()", "create …")
    aggregate = Object("aggregate", "public", "a", "public.a()", None)
    old = replace(FACTS, objects=(function, aggregate))
    assert kinds(old, way=SchemaMethod.PG_DUMP) == set()
    created = [f for f in findings(old, FACTS, SchemaMethod.CREATE) if f.severity]
    assert ["public.a()" in f.what for f in created] == [True]
    existing = [f for f in findings(old, FACTS, SchemaMethod.EXISTING) if f.severity]
    assert len(existing) == 2
    assert kinds(old, replace(FACTS, objects=old.objects), SchemaMethod.EXISTING) == set()


def columns(*found: ColumnFacts) -> DatabaseFacts:
    return DatabaseFacts(tables=(replace(T, columns=found),))


ID = ColumnFacts("id", key=1)


@pytest.mark.parametrize(
    ("old", "new", "severities"),
    [
        ((ID, ColumnFacts("a")), (ID, ColumnFacts("a")), []),
        ((ID, ColumnFacts("a")), (ID,), ["critical"]),
        ((ID,), (ID, ColumnFacts("a")), ["warning"]),
        ((ID,), (ID, ColumnFacts("a", required=True)), ["critical"]),
        ((ID, ColumnFacts("a", generated="s")), (ID,), []),
        ((ID, ColumnFacts("a", generated="s")), (ID, ColumnFacts("a")), ["critical"]),
        ((ID, ColumnFacts("a")), (ID, ColumnFacts("a", generated="s")), ["critical"]),
        ((ID, ColumnFacts("a", "bigint")), (ID, ColumnFacts("a")), ["critical"]),
        ((ID, ColumnFacts("a")), (ID, ColumnFacts("a", "bigint")), ["warning"]),
        ((ID, ColumnFacts("a")), (ID, ColumnFacts("a", "text")), ["warning"]),
        ((ID,), (ColumnFacts("id"),), ["critical"]),
        (
            (ColumnFacts("b", key=2), ColumnFacts("a", key=1)),
            (ColumnFacts("a", key=1), ColumnFacts("b", key=2)),
            [],
        ),
    ],
)
def test_tables_of_both_sides_take_the_same_rows(
    old: tuple[ColumnFacts, ...], new: tuple[ColumnFacts, ...], severities: list[str]
) -> None:
    found = [
        f.severity.word
        for f in findings(columns(*old), columns(*new), SchemaMethod.EXISTING)
        if f.kind == "structure"
    ]
    assert found == severities
    begun = findings(columns(*old), columns(*new), SchemaMethod.EXISTING, begun=True)
    assert [f for f in begun if f.kind == "structure"] == []


def test_unlogged_table_does_not_match_a_logged_one() -> None:
    new = DatabaseFacts(tables=(replace(T, persistence="u"),))
    assert kinds(new=new) == {("structure", "critical")}


def test_unreplicated_objects_are_optional_and_reported() -> None:
    old = DatabaseFacts(tables=(replace(T, persistence="u"),))
    assert kinds(old, DatabaseFacts(), SchemaMethod.EXISTING) == {
        ("unlogged", "warning"),
        ("left-out", "warning"),
    }
    assert missing_in(old, DatabaseFacts()) == []


def test_forced_row_security_needs_bypass_on_both_sides() -> None:
    forced = DatabaseFacts(tables=(replace(T, forced=True),))
    assert kinds(forced, forced) == set()
    for side in ({"old": replace(forced, bypasses=False)}, {"new": DatabaseFacts(bypasses=False)}):
        assert ("policies", "critical") in kinds(**{"old": forced, "new": forced, **side})


def test_older_target_server_gets_only_supported_objects() -> None:
    old, new = FACTS, DatabaseFacts(version=160000)
    assert choose("auto", old, new) == (SchemaMethod.CREATE, None)


def test_existing_needs_all_tables() -> None:
    assert kinds(new=replace(FACTS, tables=()), way=SchemaMethod.EXISTING) == {
        ("structure", "critical")
    }


ROOT, BRANCH = NodeType.ROOT, NodeType.BRANCH


def noted(kind: OperationKind, node: str, new: str) -> Operation:
    began = datetime(2024, 1, 1, tzinfo=UTC)
    return Operation(UUID(int=1), kind, node, new, None, False, None, "ann@host", began)


SWITCH = noted(OperationKind.SWITCHOVER, "old", "new")


@pytest.mark.parametrize(
    ("seen", "now"),
    [
        (PhaseFacts({}), Phase.NOT_BEGUN),
        (PhaseFacts({"old": ROOT}), Phase.SETTING_UP),
        (PhaseFacts({"old": ROOT, "new": BRANCH}, left=2), Phase.SETTING_UP),
        (PhaseFacts({"old": ROOT, "new": BRANCH}, states=["ok"], added=2), Phase.SETTING_UP),
        (PhaseFacts({"old": ROOT, "new": BRANCH}, states=["ok", None], added=2), Phase.COPYING),
        (PhaseFacts({"old": ROOT, "new": BRANCH}, states=["ok", "ok"], added=2), Phase.IN_STEP),
        (
            PhaseFacts({"old": ROOT, "new": BRANCH}, [SWITCH], states=["ok"], added=1),
            Phase.SWITCHING,
        ),
        (PhaseFacts({"old": BRANCH, "new": ROOT}, [SWITCH, SWITCH]), Phase.SWITCHING),
        # Of somebody else, or of a node that is none of the two.
        (
            PhaseFacts({"old": ROOT, "new": BRANCH}, [noted(OperationKind.DROP_NODE, "third", "")]),
            Phase.CHANGING,
        ),
        (
            PhaseFacts({"old": ROOT, "new": BRANCH}, [noted(OperationKind.TAKEOVER, "old", "new")]),
            Phase.CHANGING,
        ),
        (PhaseFacts({"old": ROOT}, [noted(OperationKind.DROP_NODE, "new", "")]), Phase.CHANGING),
        (
            PhaseFacts(
                {"old": ROOT, "new": BRANCH}, [noted(OperationKind.SWITCHOVER, "old", "third")]
            ),
            Phase.CHANGING,
        ),
        (
            PhaseFacts(
                {"old": ROOT, "new": BRANCH},
                [SWITCH, noted(OperationKind.MOVE_CONSUMER, "c", "new")],
            ),
            Phase.CHANGING,
        ),
        (PhaseFacts({"old": BRANCH, "new": ROOT}, states=["ok"], added=1), Phase.SWITCHED),
        (PhaseFacts({"new": ROOT}), Phase.ENDING),
    ],
)
def test_phase_is_derived_from_both_databases(seen: PhaseFacts, now: Phase) -> None:
    assert phase(seen) is now
    assert NEXT[now]


def test_writable_database_during_a_switch() -> None:
    closed = replace(SWITCH, last_tick=7)
    nodes = {"old": ROOT, "new": BRANCH}
    assert takes_writes(nodes, {}) == "old"
    assert takes_writes(nodes, {"old": SWITCH, "new": SWITCH}) == "old"
    assert takes_writes(nodes, {"old": closed, "new": SWITCH}) is None
    assert takes_writes({"old": ROOT, "new": ROOT}, {"old": closed, "new": closed}) == "new"
    assert takes_writes({"old": BRANCH, "new": ROOT}, {"new": closed}) == "new"


def test_missing_lists_replicated_and_creatable_objects() -> None:
    view = Object("view", "public", "v", "public.v", "create …")
    operator = Object("operator", "public", "+", "+(int,int)", None)
    scratch = Table(TableName("public", "scratch"), persistence="u")
    old = DatabaseFacts(tables=(T, scratch), objects=(view, operator))
    assert missing_in(old, DatabaseFacts()) == ["table public.t", "view public.v"]
    assert missing_in(old, FACTS) == ["view public.v"]
    assert missing_in(old, old) == []


def test_pg_dump_output_is_adapted_to_any_release() -> None:
    text = [
        r"\restrict abc",
        "SET transaction_timeout = 0;",
        "SET client_encoding = 'UTF8';",
        "create table t (a text default '",
        r"\unrestricted');",
        r"\unrestrict abc",
    ]
    assert for_any_release("\n".join(text)).split("\n") == [text[2], text[3], text[4]]


@pytest.mark.parametrize(
    "body",
    [
        "$$\nUPDATE sessions\nSET idle_timeout = idle_timeout + 60\nWHERE id = $1;\n$$",
        "$_$\nSET lock_timeout = '2s';\n$$ \\restrict a\n$$\n\\restrict b\n$_$",
        "'\nSET row_security = off;\nit''s\nSET lock_timeout = 0;\n'",
        "E'\\'\nSET row_security = off;\n'",
        "'\nALTER TABLE a ALTER COLUMN b SET (n_distinct=1, x=2);\n'",
    ],
)
def test_bodies_in_the_output_of_pg_dump_stay_as_they_are(body: str) -> None:
    text = f"-- it's; \"$$\n\nCREATE FUNCTION f() AS {body};\n"
    between = "SET default_table_access_method = heap;\n"
    assert for_any_release(f"{text}{between}{text}") == text * 2


def test_the_next_step_of_each_phase_can_be_pasted() -> None:
    assert not [text for text in NEXT.values() if "…" in text]


@pytest.mark.parametrize(
    ("provider", "version", "hint"),
    [
        ("c", 140000, "create the new database with lc_collate 'de' lc_ctype 'C'"),
        ("i", 140000, "accept it: before PostgreSQL 15 no database sorts as the old one does"),
        ("i", 150000, "create the new database with locale_provider icu icu_locale 'de' lc_ctype"),
        ("b", 160000, "accept it: before PostgreSQL 17 no database sorts as the old one does"),
        ("b", 180000, "create the new database with locale_provider builtin builtin_locale 'de'"),
    ],
)
def test_a_database_that_sorts_alike_is_created_with_the_same_provider(
    provider: str, version: int, hint: str
) -> None:
    old = replace(FACTS, collate="de", collate_provider=provider)
    (found,) = [
        one
        for one in findings(old, replace(FACTS, version=version), SchemaMethod.CREATE)
        if one.kind == "collation"
    ]
    assert found.do.startswith(hint)


def test_a_new_server_without_icu_cannot_create_its_collations() -> None:
    old = replace(FACTS, more=MoreFacts(icu_users=("collation app.de", "table column app.t.a")))
    new = replace(FACTS, more=MoreFacts(icu=False))
    for way in (SchemaMethod.PG_DUMP, SchemaMethod.CREATE):
        (found,) = refusals(findings(old, new, way))
        assert (found.kind, found.side) == ("collation", "new")
        assert "collation app.de, table column app.t.a" in found.what
        assert refusals(findings(old, old, way)) == []
        assert refusals(findings(FACTS, new, way)) == []
        # The structure is there.
        assert refusals(findings(old, new, way, begun=True)) == []
    assert refusals(findings(old, new, SchemaMethod.EXISTING)) == []
    icu = replace(FACTS, collate="de", collate_provider="i")
    assert "or use another server" in findings(icu, new, SchemaMethod.PG_DUMP)[0].do


@pytest.mark.parametrize(
    ("roots", "way"),
    [
        (
            ["old"],
            "finish it: londiste migrate switch; or undo it: londiste migrate switch --rollback",
        ),
        (["old", "new"], "finish it: londiste migrate switch"),
        (["new"], "finish it: londiste migrate switch"),
    ],
)
def test_a_switch_is_undone_only_before_the_new_root_takes_writes(
    roots: list[str], way: str
) -> None:
    both = pair(MigrateSettings(from_db="dbname=a", to_db="dbname=b"))
    assert way_out(both, SWITCH, "old", roots) == way
