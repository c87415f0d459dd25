"""Sequences and foreign keys."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_leaf, make_root, ret
from tests.support.suite.slow import first

ADD = "londiste.local_add_seq"
BIG = 2**63 - 1


def seqs(db: Database) -> list[tuple[object, ...]]:
    return db.execute("select * from londiste.get_seq_list('q')")


def events(db: Database) -> list[tuple[object, ...]]:
    return db.execute("select ev_type, ev_data, ev_extra1 from pgq.event_template order by ev_id")


def test_the_root_publishes_far_ahead(pgq_db: Database) -> None:
    make_root(pgq_db)
    pgq_db.execute("create sequence s start 100")
    assert ret(pgq_db, ADD, "q", "s")[0] == 200
    assert ret(pgq_db, ADD, "q", "s")[0] == 201
    assert seqs(pgq_db) == [("public.s", 30100, True)]
    assert events(pgq_db) == [("londiste.update-seq", "30100", "public.s")]
    check = "londiste.root_check_seqs"
    assert ret(pgq_db, check, "q")[0] == 100
    assert len(events(pgq_db)) == 1
    pgq_db.execute("select setval('s', 20100)")
    assert ret(pgq_db, check, "q")[0] == 100
    assert seqs(pgq_db) == [("public.s", 50100, True)]
    assert ret(pgq_db, check, "q", 100000)[0] == 100
    assert seqs(pgq_db) == [("public.s", 320100, True)]
    assert ret(pgq_db, check, "q", 5)[0] == 100
    assert len(events(pgq_db)) == 3


def test_what_is_no_sequence_or_no_node_is_refused(pgq_db: Database) -> None:
    pgq_db.execute("create sequence s")
    assert ret(pgq_db, ADD, "q", "s")[0] == 400
    assert ret(pgq_db, "londiste.root_check_seqs", "q")[0] == 404
    assert ret(pgq_db, "londiste.global_update_seq", "q", "s", 1)[0] == 404
    make_root(pgq_db)
    assert ret(pgq_db, ADD, "q", "nope") == (400, "Sequence not found: public.nope")
    assert ret(pgq_db, "londiste.global_update_seq", "q", "s", 1)[0] == 402
    assert ret(pgq_db, "londiste.local_remove_seq", "q", "s")[0] == 400


def test_a_leaf_is_raised_and_never_lowered(pgq_db: Database) -> None:
    make_leaf(pgq_db)
    pgq_db.execute("create sequence s")
    assert ret(pgq_db, ADD, "q", "s")[0] == 404
    update = "londiste.global_update_seq"
    assert ret(pgq_db, update, "q", "s", 500)[0] == 200
    assert pgq_db.value("select last_value from s") == 1
    assert ret(pgq_db, ADD, "q", "s")[0] == 200
    assert pgq_db.value("select last_value from s") == 500
    assert ret(pgq_db, update, "q", "s", 700)[0] == 200
    assert ret(pgq_db, update, "q", "s", 600)[0] == 200
    assert pgq_db.value("select last_value from s") == 700
    assert ret(pgq_db, "londiste.root_check_seqs", "q")[0] == 402
    assert ret(pgq_db, "londiste.local_remove_seq", "q", "s")[0] == 200
    assert ret(pgq_db, "londiste.local_remove_seq", "q", "s")[0] == 404
    assert seqs(pgq_db) == [("public.s", 700, False)]


def test_removing_on_the_root_is_announced(pgq_db: Database) -> None:
    make_root(pgq_db)
    pgq_db.execute("create sequence s")
    ret(pgq_db, ADD, "q", "s")
    assert ret(pgq_db, "londiste.local_remove_seq", "q", "s")[0] == 200
    assert events(pgq_db)[-1] == ("londiste.remove-seq", "public.s", None)
    assert seqs(pgq_db) == []


def test_a_removed_table_takes_its_own_sequences_along(pgq_db: Database) -> None:
    make_root(pgq_db)
    pgq_db.execute("create table t (id serial primary key); create sequence s")
    ret(pgq_db, "londiste.local_add_table", "q", "t")
    ret(pgq_db, ADD, "q", "t_id_seq")
    ret(pgq_db, ADD, "q", "s")
    ret(pgq_db, "londiste.local_remove_table", "q", "t")
    assert [s[0] for s in seqs(pgq_db)] == ["public.s"]


def test_a_dropped_sequence_stops_no_other(pgq_db: Database) -> None:
    make_root(pgq_db)
    pgq_db.execute("create sequence a; create sequence b")
    ret(pgq_db, ADD, "q", "a")
    ret(pgq_db, ADD, "q", "b")
    pgq_db.execute("drop sequence a; select setval('b', 1000000)")
    assert ret(pgq_db, "londiste.root_check_seqs", "q")[0] == 100
    assert seqs(pgq_db)[1] == ("public.b", 1030000, True)


@pytest.mark.parametrize(
    ("real", "told", "increment", "low", "high", "cycle", "value"),
    [
        (100, None, 1, 1, BIG, False, 30100),
        (100, 30100, 1, 1, BIG, False, None),
        (20100, 30100, 1, 1, BIG, False, 50100),
        (1, None, 10, 1, BIG, False, 300001),
        (-1, None, -1, -BIG, -1, False, -30001),
        (-20001, -30001, -1, -BIG, -1, False, -50001),
        (-5000, -30001, -1, -BIG, -1, False, None),
        # A small one: no more than half of what is left is skipped.
        (5000, None, 1, 1, 32767, False, 18881),
        (14000, 18881, 1, 1, 32767, False, None),
        (17000, 18881, 1, 1, 32767, False, 24881),
        (-5000, None, -1, -32768, -1, False, -18884),
        # Nearly at its end: nextval() shall fail elsewhere, not repeat.
        (32750, 32760, 1, 1, 32767, False, 32767),
        (32767, 32767, 1, 1, 32767, False, None),
        (BIG - 5, None, 1, 1, BIG, False, BIG),
        # Round and round.
        (95, None, 1, 1, 100, True, 43),
        (95, 43, 1, 1, 100, True, None),
        (30, 43, 1, 1, 100, True, 78),
        (5, None, -1, 1, 100, True, 57),
        (1, None, 1, 1, 2, True, 1),
    ],
)
def test_how_far_ahead_is_published(
    pgq_db: Database,
    real: int,
    told: int | None,
    increment: int,
    low: int,
    high: int,
    cycle: bool,
    value: int | None,
) -> None:
    found = pgq_db.value(
        "select londiste._seq_ahead(%s::int8, %s::int8, 10000, %s::int8, %s::int8, %s::int8, %s)",
        real,
        told,
        increment,
        low,
        high,
        cycle,
    )
    assert found == value


@pytest.mark.parametrize(
    "kind", first(["increment -1", "as int2 cycle", "", "increment 7", "as int2"], 2)
)
def test_whoever_takes_over_hands_out_new_values(
    pgq_db: Database, new_database: Callable[..., Database], kind: str
) -> None:
    """Every value published, followed in order: a subscriber's next value was never handed out."""
    leaf = new_database(pgq=True)
    make_root(pgq_db)
    make_leaf(leaf)
    pgq_db.execute(f"create sequence s {kind}")
    leaf.execute(f"create sequence s {kind}")
    ret(pgq_db, ADD, "q", "s")
    followed, before = 0, None

    def follow() -> None:
        nonlocal followed
        fresh = pgq_db.execute(
            "select ev_id, ev_extra1, ev_data::int8, ev_extra2 from pgq.event_template"
            " where ev_id > %s order by ev_id",
            followed,
        )
        for number, name, value, how in fresh:
            assert ret(leaf, "londiste.global_update_seq", "q", name, value, how)[0] == 200
            followed = number

    follow()
    assert ret(leaf, ADD, "q", "s")[0] == 200
    for _ in range(12):
        pgq_db.execute("select count(nextval('s')) from generate_series(1, 1500)")
        ret(pgq_db, "londiste.root_check_seqs", "q")
        follow()
        real, ahead = (
            pgq_db.value("select last_value from s"),
            leaf.value("select last_value from s"),
        )
        if "cycle" not in kind:
            assert (ahead - real) * (-1 if "-1" in kind else 1) > 0
            assert before is None or (ahead - before) * (-1 if "-1" in kind else 1) >= 0
        before = ahead
    found = pgq_db.execute("select * from londiste.root_exact_seqs('q')")
    follow()
    assert found == [("public.s", pgq_db.value("select last_value from s"))]
    # What is published ahead does not come back while nobody writes.
    ret(pgq_db, "londiste.root_check_seqs", "q")
    follow()
    assert leaf.value("select last_value from s") == pgq_db.value("select last_value from s")
    expected = pgq_db.value("select nextval('s')")
    assert leaf.value("select nextval('s')") == expected
    # The root goes on after all: everybody is ahead again.
    ret(pgq_db, "londiste.root_check_seqs", "q")
    follow()
    assert leaf.value("select last_value from s") != expected


def test_exact_values_do_not_take_back_what_was_handed_out_here(pgq_db: Database) -> None:
    make_leaf(pgq_db)
    pgq_db.execute("create sequence s")
    update = "londiste.global_update_seq"
    ret(pgq_db, update, "q", "s", 30000)
    ret(pgq_db, ADD, "q", "s")
    assert pgq_db.value("select nextval('s')") == 30001
    ret(pgq_db, update, "q", "s", 120, "exact")
    assert pgq_db.value("select nextval('s')") == 30002
    assert pgq_db.value("select count(*) from londiste.seq_info where exact") == 1


def test_a_sequence_that_was_never_used_counts_as_used_while_the_root_lives(
    pgq_db: Database,
) -> None:
    make_leaf(pgq_db)
    pgq_db.execute("create sequence s start 5")
    ret(pgq_db, "londiste.global_update_seq", "q", "s", 5)
    ret(pgq_db, ADD, "q", "s")
    assert pgq_db.value("select nextval('s')") == 6


@pytest.mark.parametrize(("kind", "first"), [("start 5", 5), ("increment -1", -1), ("cycle", 1)])
def test_a_sequence_that_was_never_used_is_unused_on_the_next_root(
    pgq_db: Database, new_database: Callable[..., Database], kind: str, first: int
) -> None:
    leaf = new_database(pgq=True)
    make_root(pgq_db)
    make_leaf(leaf)
    for db in (pgq_db, leaf):
        db.execute(f"create sequence s {kind}")
    ret(pgq_db, ADD, "q", "s")
    seen = 0

    def follow() -> None:
        nonlocal seen
        for number, value, how in pgq_db.execute(
            "select ev_id, ev_data::int8, ev_extra2 from pgq.event_template"
            " where ev_id > %s order by ev_id",
            seen,
        ):
            ret(leaf, "londiste.global_update_seq", "q", "s", value, how)
            seen = number

    follow()
    ret(leaf, ADD, "q", "s")
    assert leaf.value("select is_called from s")
    assert pgq_db.execute("select * from londiste.sequence_values('q')") == [
        ("public.s", first, True)
    ]
    pgq_db.execute("select londiste.root_exact_seqs('q')")
    follow()
    assert leaf.execute("select last_value, is_called from s") == [(first, False)]
    # On the way back the sequence that nobody has used stays unused, too.
    ret(leaf, "londiste.global_update_seq", "q", "s", first, "unused")
    assert leaf.execute("select last_value, is_called from s") == [(first, False)]
    # The first value itself is published: a follower must not hand it out again.
    assert pgq_db.value("select nextval('s')") == first
    ret(pgq_db, "londiste.root_check_seqs", "q")
    follow()
    assert leaf.value("select nextval('s')") not in (first, None)
    assert leaf.value("select not unused and not exact from londiste.seq_info")


def test_a_smaller_sequence_fails_rather_than_repeats(pgq_db: Database) -> None:
    make_leaf(pgq_db)
    pgq_db.execute("create sequence s as int2")
    ret(pgq_db, "londiste.global_update_seq", "q", "s", 70000)
    assert ret(pgq_db, ADD, "q", "s")[0] == 200
    with pytest.raises(psycopg.errors.SequenceGeneratorLimitExceeded):
        pgq_db.execute("select nextval('s')")


def test_only_the_root_publishes_exactly(pgq_db: Database) -> None:
    make_leaf(pgq_db)
    with pytest.raises(psycopg.Error, match="only the root publishes sequences"):
        pgq_db.execute("select * from londiste.root_exact_seqs('q')")


def test_a_branch_without_the_sequence_keeps_the_value_of_one_that_descends(
    pgq_db: Database,
) -> None:
    make_leaf(pgq_db)
    for value in (-30001, -60001):
        ret(pgq_db, "londiste.global_update_seq", "q", "s", value, "back")
    assert seqs(pgq_db) == [("public.s", -60001, False)]
    pgq_db.execute("create sequence s increment -1")
    ret(pgq_db, ADD, "q", "s")
    assert pgq_db.value("select last_value from s") == -60001


# -- foreign keys -------------------------------------------------------------


@pytest.fixture
def keys(pgq_db: Database) -> Database:
    make_leaf(pgq_db)
    pgq_db.execute(
        """
        create table a (id int primary key);
        create table "B b" (id int primary key, a int);
        alter table "B b" add constraint "to A" foreign key (a) references a on delete cascade;
        """
    )
    for name in ("a", "B b"):
        ret(pgq_db, "londiste.global_add_table", "q", name)
        ret(pgq_db, "londiste.local_add_table", "q", name)
    return pgq_db


def existing(db: Database) -> list[tuple[object, ...]]:
    return db.execute(
        "select conname::text, convalidated from pg_constraint"
        " where contype = 'f' and connamespace = 'public'::regnamespace"
    )


def test_a_foreign_key_is_seen_from_both_tables(keys: Database) -> None:
    expected = [
        (
            "public.B b",
            "public.a",
            "to A",
            'ALTER TABLE ONLY public."B b" ADD CONSTRAINT "to A"'
            " FOREIGN KEY (a) REFERENCES public.a(id) ON DELETE CASCADE",
        )
    ]
    for table in ("public.a", "B b"):
        assert keys.execute("select * from londiste.find_table_fkeys(%s)", table) == expected


def test_a_dropped_key_comes_back_as_it_was(keys: Database) -> None:
    drop = "select londiste.drop_table_fkey('public.B b', 'to A')"
    assert keys.value(drop) == 1
    assert keys.value(drop) == 0
    assert existing(keys) == []
    assert len(keys.execute("select * from londiste.get_table_pending_fkeys('a')")) == 1
    assert keys.value("select londiste.restore_table_fkey('public.B b', 'to A')") == ""
    assert existing(keys) == [("to A", True)]
    assert keys.execute("select * from londiste.pending_fkeys") == []


def test_a_lazy_restore_hands_out_one_statement_at_a_time(keys: Database) -> None:
    keys.execute("select londiste.drop_table_fkey('public.B b', 'to A')")
    restore = "select londiste.restore_table_fkey('public.B b', 'to A', true)"
    first = keys.value(restore)
    assert first.endswith("NOT VALID")
    assert keys.value(restore) == first
    keys.execute(first)
    assert existing(keys) == [("to A", False)]
    second = keys.value(restore)
    assert second == 'ALTER TABLE public."B b" VALIDATE CONSTRAINT "to A"'
    keys.execute(second)
    assert keys.value(restore) == ""
    assert existing(keys) == [("to A", True)]
    assert keys.value(restore) == ""


def test_a_key_that_was_not_valid_stays_so(keys: Database) -> None:
    keys.execute(
        'alter table "B b" drop constraint "to A";'
        'set session_replication_role = replica; insert into "B b" values (1, 99);'
        'alter table "B b" add constraint "to A" foreign key (a) references a not valid'
    )
    keys.execute("select londiste.drop_table_fkey('public.B b', 'to A')")
    restore = "select londiste.restore_table_fkey('public.B b', 'to A', true)"
    keys.execute(keys.value(restore))
    assert keys.value(restore) == ""
    assert existing(keys) == [("to A", False)]


def test_a_key_waits_for_both_tables(keys: Database) -> None:
    keys.execute("select londiste.drop_table_fkey('public.B b', 'to A')")
    valid = "select fkey_name from londiste.get_valid_pending_fkeys('q')"
    state = "londiste.local_set_table_state"
    assert keys.execute(valid) == []
    ret(keys, state, "q", "public.a", None, "ok")
    assert keys.execute(valid) == []
    ret(keys, state, "q", "public.B b", "1:1:", "ok")
    assert keys.execute(valid) == []
    ret(keys, state, "q", "public.B b", None, "ok")
    assert keys.execute(valid) == [("to A",)]
    assert keys.execute(valid.replace("'q'", "'other'")) == []


def test_writers_may_add_and_readers_may_look(pgq_db: Database) -> None:
    make_root(pgq_db)
    pgq_db.execute("create table t (id int primary key); grant all on t to londiste_writer")
    with psycopg.connect(pgq_db.dsn, autocommit=True) as conn:
        conn.execute("set role londiste_reader")
        conn.execute("select * from londiste.get_table_list('q')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("select * from londiste.local_add_table('q', 't')")
        conn.execute("set role londiste_writer")
        row = conn.execute("select ret_code from londiste.local_add_table('q', 't')").fetchone()
        assert row == (200,)


@pytest.mark.parametrize("target", ["t", "public.t", '"T t"', '"T ("'])
def test_a_key_that_was_stored_without_schemas_comes_back(pgq_db: Database, target: str) -> None:
    make_root(pgq_db)
    name = target.removeprefix("public.").strip('"')
    pgq_db.execute(f'create table "{name}" (id int primary key); create table u (id int)')
    stored = f"ALTER TABLE ONLY u ADD CONSTRAINT k FOREIGN KEY (id) REFERENCES {target}(id)"
    again = "select londiste.restore_table_fkey('public.u', 'k', %s)"
    pgq_db.execute(
        "insert into londiste.pending_fkeys values ('public.u', %s, 'k', %s)",
        f"public.{name}",
        stored,
    )
    conn = pgq_db.connect()
    (lazy,) = conn.execute(again, [True]).fetchone() or ("",)
    conn.execute(str(lazy).encode())
    pgq_db.execute("alter table u drop constraint k")
    assert conn.execute(again, [False]).fetchone() == ("",)
    assert pgq_db.value("select count(*) from pg_constraint where conname = 'k'") == 1


def test_sessions_that_check_sequences_do_not_wait_for_each_other(pgq_db: Database) -> None:
    make_root(pgq_db)
    for number in range(20):
        pgq_db.execute(f"create sequence s{number}")
        ret(pgq_db, ADD, "q", f"s{number}")
    check = "select * from londiste.root_check_seqs('q')"
    locked = "select count(*) from londiste.seq_info where xmax <> 0"
    before = pgq_db.value(locked)
    with pgq_db.connect() as one, pgq_db.connect() as two:
        two.execute("set lock_timeout = '1s'")
        with one.transaction():
            # Nothing is due: nothing is locked, and no row is written.
            one.execute(check.encode())
            assert pgq_db.value(locked) == before
            two.execute(check.encode())
        pgq_db.execute("select setval('s3', 50000), setval('s4', 50000)")
        with one.transaction():
            one.execute(check.encode())
            pgq_db.execute("select setval('s5', 70000)")
            # What the first one publishes is left to it, the rest is published.
            with two.transaction():
                two.execute(check.encode())
    assert [s[1] for s in seqs(pgq_db)[3:6]] == [80000, 80000, 100000]
    told = [e for e in events(pgq_db) if e[1] in ("80000", "100000")]
    assert sorted(e[2] for e in told) == ["public.s3", "public.s4", "public.s5"]
