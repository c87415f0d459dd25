"""Registering tables: codes, messages, triggers."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_branch, make_leaf, make_root, ret

ADD = "londiste.local_add_table"


@pytest.fixture
def root(pgq_db: Database) -> Database:
    make_root(pgq_db)
    tables(pgq_db)
    return pgq_db


@pytest.fixture
def leaf(pgq_db: Database) -> Database:
    make_leaf(pgq_db)
    tables(pgq_db)
    return pgq_db


def tables(db: Database) -> None:
    db.execute(
        """
        create table t (id int primary key, v text);
        create table keyless (v text);
        create schema "S x";
        create table "S x"."T.y" (a int, b int, primary key (b, a));
        create table parent (id int primary key) partition by range (id);
        create view a_view as select 1 as one;
        """
    )


def events(db: Database) -> list[tuple[Any, ...]]:
    return db.execute("select ev_type, ev_data, ev_extra1 from pgq.event_template order by ev_id")


def triggers(db: Database, table: str = "t") -> dict[str, str]:
    return dict(
        db.execute(
            "select tgname::text, pg_get_triggerdef(oid) from pg_trigger"
            " where tgrelid = %s::regclass and not tgisinternal",
            table,
        )
    )


def row(db: Database, table: str = "public.t") -> dict[str, Any]:
    with psycopg.connect(db.dsn, row_factory=psycopg.rows.dict_row) as conn:
        found = conn.execute(
            "select * from londiste.get_table_list('q') where table_name = %s", [table]
        ).fetchone()
        assert found is not None
        return found


def test_a_table_of_the_root_is_captured_and_announced(root: Database) -> None:
    assert ret(root, ADD, "q", "t") == (200, "Table added: public.t")
    assert events(root) == [("londiste.add-table", "public.t", None)]
    assert row(root)["local"] is True
    assert row(root)["merge_state"] == "ok"
    assert {"_londiste_q", "_londiste_q_truncate"} <= set(triggers(root))
    root.execute("insert into t values (1, 'x')")
    assert events(root)[1][2] == "public.t"


def test_adding_twice_is_fine_and_adding_differently_is_not(root: Database) -> None:
    ret(root, ADD, "q", "t", [], "a=1")
    assert ret(root, ADD, "q", "public.t", [], "a=1") == (200, "Table already added: public.t")
    assert ret(root, ADD, "q", "t", [], "a=2") == (
        410,
        "Table already added, but with different args: public.t",
    )
    assert len(events(root)) == 1


@pytest.mark.parametrize(
    ("args", "answer"),
    [
        (("q", "nope"), (404, "Table does not exist: public.nope")),
        (("q", "a_view"), (404, "Table does not exist: public.a_view")),
        (("q", "keyless"), (400, "Primary key missing on table: public.keyless")),
        (("q", "empty"), (400, "Table has no columns: public.empty")),
        (("q", "empty", ["whole_row"]), (400, "Table has no columns: public.empty")),
        (("nothing", "t"), (400, "No such set: nothing")),
        (
            ("q", "t", ["merge_all", "no_merge"]),
            (405, "Cannot use merge-all and no-merge together"),
        ),
        (
            ("q", "t", ["tgflags=X"]),
            (400, "Trigger creation failed for table public.t: Unknown trigger flag: X"),
        ),
    ],
)
def test_unsupported_relation_is_refused_with_reason(
    root: Database, args: tuple[Any, ...], answer: tuple[int, str]
) -> None:
    root.execute("create table empty ()")
    with psycopg.connect(root.dsn) as conn:
        placeholders = ", ".join(["%s"] * len(args))
        found = conn.execute(f"select * from {ADD}({placeholders})", args).fetchone()
        conn.rollback()
    assert found == answer
    assert events(root) == []


@pytest.mark.parametrize("word", ["insert_only", "pkey=v"])
def test_table_without_key_needs_an_option(root: Database, word: str) -> None:
    assert ret(root, ADD, "q", "keyless", [word])[0] == 200
    root.execute("insert into keyless values ('x')")
    assert events(root)[1][2] == "public.keyless"
    if word == "insert_only":
        assert row(root, "public.keyless")["table_attrs"] == "insert_only=1"
        with pytest.raises(psycopg.Error, match="without pkey"):
            root.execute("update keyless set v = 'y'")
    else:
        root.execute("delete from keyless")
        assert len(events(root)) == 3


def test_quoted_names_are_carried_unquoted(root: Database) -> None:
    assert ret(root, ADD, "q", "S x.T.y") == (200, "Table added: S x.T.y")
    root.execute('insert into "S x"."T.y" values (1, 2)')
    assert events(root)[1][2] == "S x.T.y"


def test_a_leaf_takes_only_tables_of_the_queue_and_denies_writes(leaf: Database) -> None:
    assert ret(leaf, ADD, "q", "t") == (404, "Table not available on queue: public.t")
    assert ret(leaf, "londiste.global_add_table", "q", "t")[0] == 200
    assert ret(leaf, ADD, "q", "t")[0] == 200
    assert (row(leaf)["local"], row(leaf)["merge_state"]) == (True, None)
    for statement in ("insert into t values (1, 'x')", "truncate t"):
        with pytest.raises(
            psycopg.Error, match=r"Table 'public\.t' to queue 'q': change not allowed"
        ):
            leaf.execute(statement)
    leaf.execute("set session_replication_role = replica; insert into t values (1, 'x')")


def test_capture_on_a_branch_refuses_local_writes_only(pgq_db: Database) -> None:
    make_branch(pgq_db)
    tables(pgq_db)
    ret(pgq_db, "londiste.global_add_table", "q", "t")
    assert ret(pgq_db, ADD, "q", "t")[0] == 200
    pgq_db.execute("set session_replication_role = replica; insert into t values (1, 'x')")
    assert events(pgq_db) == []
    with pytest.raises(psycopg.Error, match="Insert into queue disallowed"):
        pgq_db.execute("insert into t values (2, 'x')")


@pytest.mark.parametrize(
    ("words", "state", "attrs", "count"),
    [
        (["expect_sync"], "ok", None, 2),
        (["skip_truncate"], None, "skip_truncate=1", 2),
        (["no_triggers"], None, None, 0),
        (["virtual_table"], "ok", None, 0),
    ],
)
def test_words_decide_state_attributes_and_triggers(
    leaf: Database, words: list[str], state: str | None, attrs: str | None, count: int
) -> None:
    ret(leaf, "londiste.global_add_table", "q", "t")
    code, note = ret(leaf, ADD, "q", "t", words)
    assert code == 200
    assert ("with no triggers" in note) is (count == 0)
    assert row(leaf)["merge_state"] == state
    assert row(leaf)["table_attrs"] == attrs
    assert len(triggers(leaf)) == count


def test_a_table_may_have_another_name_here(root: Database) -> None:
    root.execute("create table other (id int primary key, v text)")
    assert ret(root, ADD, "q", "t", ["tgflags=C"], None, "other")[0] == 200
    assert row(root)["dest_table"] == "public.other"
    root.execute("insert into other values (1, 'x'); truncate other")
    assert [e[2] for e in events(root)[1:]] == ["public.t", "public.t"]
    assert triggers(root) == {}
    assert ret(root, "londiste.local_remove_table", "q", "t")[0] == 200
    assert triggers(root, "other") == {}


#: Letters of tgflags, the function of the trigger, and when it fires.
LETTERS = [
    ("", "pgq.logutriga", "AFTER INSERT"),
    ("C", "londiste_capture._capture_", "AFTER UPDATE"),
    ("Q", "pgq.sqltriga", "AFTER INSERT"),
    ("L", "pgq.logutriga", "AFTER INSERT"),
    ("J", "pgq.jsontriga", "AFTER INSERT"),
    ("QLJ", "pgq.jsontriga", "AFTER INSERT"),
    ("B", "pgq.logutriga", "BEFORE INSERT"),
    ("BLI", "pgq.logutriga", "BEFORE INSERT ON"),
    ("LUD", "pgq.logutriga", "AFTER DELETE OR UPDATE ON"),
]


def test_letters_choose_the_trigger(root: Database) -> None:
    for flags, function, start in LETTERS:
        assert ret(root, ADD, "q", "t", [f"tgflags={flags}"])[0] == 200
        definition = triggers(root)["_londiste_q"]
        assert function in definition and start in definition, flags
        before = len(events(root))
        root.execute("insert into t values (1, 'x'); update t set v = 'y'; truncate t")
        assert len(events(root)) > before, flags
        assert ret(root, "londiste.local_remove_table", "q", "t")[0] == 200


@pytest.mark.parametrize("flags", ["", "C", "Q", "L", "J", "BL"])
def test_partition_changes_are_events_of_the_partitioned_table(root: Database, flags: str) -> None:
    root.execute("create table low partition of parent for values from (0) to (10)")
    assert ret(root, ADD, "q", "parent", [f"tgflags={flags}"])[0] == 200
    root.execute("create table high partition of parent for values from (10) to (20)")
    root.execute(
        "insert into parent values (1), (11); insert into low values (2); delete from parent;"
        " truncate parent"
    )
    told = [name for kind, _, name in events(root) if not kind.startswith("londiste.")]
    assert len(told) >= 4
    assert set(told) == {"public.parent"}
    # It is as it should be, and stays.
    before = root.value("select max(oid) from pg_trigger")
    if flags not in ("C", ""):
        change = "londiste.local_change_handler"
        assert ret(root, change, "q", "parent", [f"tgflags={flags}"], "x=1")[0] == 200
        assert root.value("select max(oid) from pg_trigger") == before


def test_only_inserts_are_captured_where_only_i_is_asked_for(root: Database) -> None:
    ret(root, ADD, "q", "t", ["tgflags=CI"])
    root.execute("insert into t values (1, 'x'); update t set v = 'y'; delete from t")
    assert len(events(root)) == 2


def test_an_expression_for_the_type_needs_a_compatible_trigger(root: Database) -> None:
    assert ret(root, ADD, "q", "t", ["ev_type='mine'"])[0] == 200
    root.execute("insert into t values (1, 'x')")
    assert events(root)[1][0] == "mine"


def test_a_skipping_trigger_fires_last(root: Database) -> None:
    assert ret(root, ADD, "q", "t", ["tgflags=BIS"])[0] == 200
    root.execute("insert into t values (1, 'x')")
    assert root.value("select count(*) from t") == 0
    assert len(events(root)) == 2
    assert "zzz__londiste_q" in triggers(root)
    make_root(root, "q2")
    assert ret(root, ADD, "q2", "t")[0] == 403
    assert ret(root, ADD, "q2", "t", ["tgflags=AS"])[0] == 405


def test_trigger_before_the_capture_trigger_is_a_warning(root: Database) -> None:
    root.execute(
        """
        create function f() returns trigger language plpgsql as 'begin return new; end';
        create trigger "A first" before insert on t for each row execute function f();
        """
    )
    assert ret(root, ADD, "q", "t") == (
        301,
        "Table added: public.t, but londiste trigger is not first: A first",
    )


def test_an_unchanged_compatible_trigger_stays(root: Database) -> None:
    ret(root, ADD, "q", "t", ["tgflags=L"])
    before = root.value("select oid from pg_trigger where tgname = '_londiste_q'")
    change = "londiste.local_change_handler"
    assert ret(root, change, "q", "t", ["tgflags=L"], "x=1")[0] == 200
    assert root.value("select oid from pg_trigger where tgname = '_londiste_q'") == before
    assert row(root)["table_attrs"] == "x=1"
    assert ret(root, change, "q", "t", ["tgflags=C"], None)[0] == 200
    assert "_capture_" in triggers(root)["_londiste_q"]
    assert ret(root, change, "q", "t", ["tgflags=Q"], None)[0] == 200
    assert {"_londiste_q", "_londiste_q_truncate"} <= set(triggers(root))
    assert ret(root, change, "q", "nope", [], None)[0] == 404
    assert ret(root, change, "nothing", "t", [], None)[0] == 400


def test_removing_on_the_root_is_announced(root: Database) -> None:
    remove = "londiste.local_remove_table"
    assert ret(root, remove, "q", "t") == (400, "Table not found: public.t")
    ret(root, ADD, "q", "t")
    assert ret(root, remove, "q", "t") == (200, "Table removed: public.t")
    assert triggers(root) == {}
    assert [e[:2] for e in events(root)] == [
        ("londiste.add-table", "public.t"),
        ("londiste.remove-table", "public.t"),
    ]
    assert root.value("select count(*) from londiste.table_info") == 0


def test_removing_on_a_leaf_keeps_the_table_registered(leaf: Database) -> None:
    ret(leaf, "londiste.global_add_table", "q", "t")
    remove = "londiste.local_remove_table"
    assert ret(leaf, remove, "q", "t") == (400, "Table not registered locally: public.t")
    ret(leaf, ADD, "q", "t", ["expect_sync"], "a=1")
    assert ret(leaf, remove, "q", "t")[0] == 200
    assert row(leaf)["local"] is False
    assert (row(leaf)["merge_state"], row(leaf)["table_attrs"]) == (None, None)
    leaf.execute("insert into t values (1, 'x')")
    assert ret(leaf, "londiste.global_remove_table", "q", "t")[0] == 200
    assert ret(leaf, "londiste.global_remove_table", "q", "t")[0] == 400


def test_unknown_tables_have_no_state(leaf: Database) -> None:
    for function, *rest in (
        ("local_set_table_state", None, "ok"),
        ("local_set_table_attrs", "a=1"),
        ("local_set_table_struct", "select 1"),
    ):
        assert ret(leaf, f"londiste.{function}", "q", "public.t", *rest)[0] == 404


def test_dropping_the_node_frees_its_tables(root: Database) -> None:
    ret(root, ADD, "q", "t")
    ret(root, ADD, "q", "S x.T.y", ["tgflags=L"])
    assert ret(root, "pgq_node.drop_node", "q", "n1")[0] == 200
    root.execute("insert into t values (1, 'x'); truncate t")
    assert triggers(root) == {}
    assert triggers(root, '"S x"."T.y"') == {}


def test_other_capture_triggers_of_the_queue_are_dropped(root: Database) -> None:
    root.execute(
        """
        create trigger mine after insert on t for each row
            execute function pgq.logutriga('q', 'backup');
        create trigger other after insert on t for each row execute function pgq.logutriga('q2');
        """
    )
    root.execute("select londiste.drop_table_triggers('q', 't')")
    assert set(triggers(root)) == {"other"}
    root.execute("select londiste.drop_table_triggers('q', 'gone')")


def test_removal_of_a_renamed_table_spares_the_table_that_has_its_new_name(root: Database) -> None:
    ret(root, ADD, "q", "t")
    root.execute("alter table t rename to u")
    assert ret(root, ADD, "q", "u")[0] == 200
    there = triggers(root, "u")
    assert ret(root, "londiste.local_remove_table", "q", "t")[0] == 200
    assert triggers(root, "u") == there
    root.execute("insert into u values (1, 'x')")
    assert [table for _, _, table in events(root)][-1] == "public.u"


def test_missing_on_the_root_lists_unregistered_tables(root: Database) -> None:
    root.execute("create sequence s; create temporary table temp (x int)")
    ret(root, ADD, "q", "t")
    assert root.execute("select * from londiste.local_show_missing('q')") == [
        ("r", "S x.T.y"),
        ("r", "public.keyless"),
        ("r", "public.parent"),
        ("S", "public.s"),
    ]
    with pytest.raises(psycopg.Error) as caught:
        root.execute("select * from londiste.local_show_missing('nothing')")
    assert caught.value.sqlstate == "LD001"


def test_missing_on_a_leaf_lists_tables_not_replicated_there(leaf: Database) -> None:
    ret(leaf, "londiste.global_add_table", "q", "t")
    ret(leaf, "londiste.global_add_table", "q", "zz")
    ret(leaf, ADD, "q", "t")
    assert leaf.execute("select * from londiste.local_show_missing('q')") == [("r", "public.zz")]


def test_two_queues_do_not_fill_one_table_by_accident(leaf: Database) -> None:
    make_leaf(leaf, "q2")
    for queue in ("q", "q2"):
        ret(leaf, "londiste.global_add_table", queue, "t")
    code, note = ret(leaf, ADD, "q", "t")
    assert code == 405
    assert "merge-all or no-merge" in note


def test_names_are_split_and_quoted_at_the_first_dot(pgq_db: Database) -> None:
    assert pgq_db.execute(
        "select londiste.make_fqname('a'), londiste.make_fqname('a.b'),"
        " londiste.quote_fqname('a.B.c'), londiste.quote_fqname('x')"
    ) == [("public.a", "a.b", 'a."B.c"', "public.x")]
    assert pgq_db.execute("select * from londiste.split_fqname('a.B.c')") == [("a", "B.c")]
    assert pgq_db.value("select londiste.find_table_oid('nope')") is None


def test_only_the_root_writes_control_events(root: Database) -> None:
    assert root.value("select londiste.root_notify_change('q', 'x', 'y')") == 1
    make_leaf(root, "q2")
    with pytest.raises(psycopg.Error, match="only root node can send events") as caught:
        root.execute("select londiste.root_notify_change('q2', 'x', 'y')")
    assert caught.value.sqlstate == "LD101"


def test_maintenance_forgets_old_scripts(pgq_db: Database) -> None:
    pgq_db.execute(
        "insert into londiste.applied_execute values ('q', 'old', now() - interval '4 months', ''),"
        " ('q', 'new', now(), '')"
    )
    assert pgq_db.value("select londiste.periodic_maintenance()") == 0
    assert pgq_db.execute("select execute_file from londiste.applied_execute") == [("new",)]


def test_the_replication_role_takes_three_values_until_the_transaction_ends(
    pgq_db: Database,
) -> None:
    asked = "select londiste.set_session_replication_role(%s, %s)"
    with psycopg.connect(pgq_db.dsn) as conn:
        conn.execute("set role londiste_writer")
        conn.commit()
        conn.execute(asked, ["replica", True])
        assert conn.execute("show session_replication_role").fetchone() == ("replica",)
        conn.commit()
        assert conn.execute("show session_replication_role").fetchone() == ("origin",)
        for value, local, sqlstate in (
            ("nonsense", True, "LD005"),
            ("replica", False, "42501"),
            ("replica", None, "42501"),
        ):
            with pytest.raises(psycopg.Error) as caught, conn.transaction():
                conn.execute(asked, [value, local])
            assert caught.value.sqlstate == sqlstate
        # Who may set it himself may do so for the session, as Londiste 3 does.
        conn.execute("reset role")
        conn.execute(asked, ["replica", False])
        conn.commit()
        assert conn.execute("show session_replication_role").fetchone() == ("replica",)
