"""The copy process of a node, with this test in the place of the main worker and the ticker."""

from __future__ import annotations

import pytest

from londiste.console.collect import without_values
from londiste.console.facts import SlowFacts, collect
from londiste.copy import progress
from londiste.daemon.signals import Signals
from londiste.db.connection import session
from londiste.errors import NodeBusy, StateError, UnknownTable
from londiste.monitor import status as monitor
from londiste.monitor.queues.model import Limits
from londiste.replication.tablesync.stopped import remedy
from tests.fixtures.copies import ROWS, A, B, Nodes, fill, held, same
from tests.fixtures.nodes import ret
from tests.support.suite.slow import first
from tests.support.waiting import wait_for


def test_a_table_is_copied_caught_up_and_handed_over(nodes: Nodes) -> None:
    fill(nodes, A)
    nodes.add(A)
    with held(nodes):
        nodes.start()
        wait_for(
            lambda: nodes.leaf.value("select count(*) from londiste.copy_attempt"),
            what="the copy to begin",
        )
        # Behind the snapshot of the copy, in front of the hand-over.
        fill_late = "insert into public.a select i, 'late' from generate_series(5001, 5100) i"
        nodes.root.execute(fill_late)
        nodes.root.execute("delete from public.a where id % 7 = 0")
        nodes.root.execute("update public.a set id = -id where id % 11 = 0")
    nodes.wait_end()
    assert nodes.failure is None
    assert nodes.state(A) == "ok"
    snapshot, ddl = nodes.leaf.execute(
        "select custom_snapshot, dropped_ddl from londiste.table_info"
    )[0]
    assert (snapshot, ddl) == (None, None)
    assert same(nodes, A)
    assert nodes.leaf.value("select count(*) from pg_constraint where conname = 'a_pkey'") == 1
    assert nodes.consumers() == []
    assert nodes.leaf.value("select count(*) from londiste.copy_attempt") == 0


def test_two_tables_are_copied_side_by_side(nodes: Nodes) -> None:
    fill(nodes, A)
    fill(nodes, B, 10)
    nodes.add(A, B)
    nodes.start()
    nodes.wait_end()
    assert (nodes.state(A), nodes.state(B)) == ("ok", "ok")
    assert same(nodes, A)
    assert same(nodes, B)


@pytest.mark.slow
def test_a_table_that_cannot_be_copied_says_why_and_others_go_on(nodes: Nodes) -> None:
    fill(nodes, A)
    fill(nodes, B)
    nodes.leaf.execute("alter table public.a add more int not null")
    nodes.add(A, B)
    nodes.start()
    wait_for(lambda: nodes.state(B) == "ok", what="the other table")
    assert "column more does not exist on the source" in wait_for(
        lambda: nodes.error(A), what="the reason to be stored"
    )
    assert nodes.state(A) == "in-copy"
    nodes.leaf.execute("alter table public.a alter more set default 7")
    nodes.wait_end()
    assert nodes.state(A) == "ok"
    assert nodes.leaf.value("select count(*) from public.a where more = 7") == 3000


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("text check (v not like 'SECRET%')", "SECRET", "violates check constraint"),
        ("tsvector", "''SECRET", "syntax error in tsvector: ***"),
        ("regclass", "SECRET", "relation *** does not exist"),
    ],
)
def test_no_log_and_no_stored_error_shows_a_value(
    nodes: Nodes, caplog: pytest.LogCaptureFixture, column: str, value: str, reason: str
) -> None:
    nodes.root.execute(f"insert into public.a values (471, '{value}')")
    nodes.leaf.execute(
        f"drop table public.a; create table public.a (id int8 primary key, v {column})"
    )
    nodes.add(A)
    with caplog.at_level("INFO"):
        nodes.start()
        told = wait_for(lambda: nodes.error(A), what="the reason to be stored") + caplog.text
        nodes.stop()
    assert reason in told and "secret" not in told.lower() and "471" not in told, told


def test_the_console_shows_no_words_of_a_trigger(nodes: Nodes) -> None:
    nodes.root.execute("insert into public.a values (471, 'SECRET')")
    nodes.leaf.execute(
        "create function says() returns trigger language plpgsql as"
        " $$ begin raise 'pay of % is %', new.id, new.v using hint = new.v; end $$;"
        " create trigger says before insert on public.a for each row execute function says();"
        " alter table public.a enable always trigger says"
    )
    nodes.add(A)
    nodes.start()
    wait_for(lambda: nodes.error(A), what="the reason to be stored")
    nodes.stop()
    with session(nodes.leaf.dsn, name="test", autocommit=True) as conn:
        none = SlowFacts({})
        copies = collect(conn, "q", lambda tables: none, values=False).copies
        status = without_values(monitor.collect(nodes.leaf.dsn, "q", limits=Limits()))
    errors = [one.error for one in copies.tables]
    errors += [text for node in status.nodes for _, text in node.errors]
    assert errors.count("code of table public.a raised P0001") == 2, errors
    assert "secret" not in repr((copies, status)).lower()


def test_a_table_that_fails_gives_its_place_to_the_next(nodes: Nodes) -> None:
    nodes.parallel = 1
    fill(nodes, B)
    nodes.leaf.execute("alter table public.a add more int not null")
    nodes.add(A, B)
    nodes.start()
    wait_for(lambda: nodes.state(B) == "ok", what="the other table")
    assert nodes.state(A) == "in-copy"
    nodes.leaf.execute("alter table public.a drop more")
    nodes.wait_end()
    assert nodes.state(A) == "ok"


def test_tables_without_a_common_column_are_not_taken_for_copied(nodes: Nodes) -> None:
    nodes.leaf.execute(
        "drop table public.a; create table public.a (other int primary key default 1)"
    )
    nodes.add(A)
    nodes.start()
    why = wait_for(lambda: remedy(nodes.error(A)), what="the copy to be known as stopped")
    assert "no column in common" in why[0] and why[1].startswith("make the two definitions match")
    assert nodes.state(A) == "in-copy"


def test_rows_that_do_not_fit_an_index_are_not_copied_again(nodes: Nodes) -> None:
    fill(nodes, A)
    nodes.leaf.execute("create unique index twice on public.a (v)")
    nodes.add(A)
    nodes.start()
    assert "is duplicated" in wait_for(lambda: nodes.error(A), what="the reason to be stored")
    assert nodes.state(A) == "catching-up"
    with nodes.leaf.connect(replica=True) as conn, conn.transaction():
        conn.execute("update public.a set v = id::text")
    nodes.wait_end()
    assert nodes.state(A) == "ok"
    # The rows are those that were corrected here: no second copy has come over them.
    assert nodes.leaf.value("select count(*) from public.a where v = id::text") == 3000
    assert nodes.leaf.value("select count(*) from pg_indexes where indexname = 'twice'") == 1


@pytest.mark.parametrize(
    "made",
    first(
        [
            'alter table public.a add constraint "twi\'ce" unique (v)',
            'create unique index "twi\'ce" on public.a (v)',
        ]
    ),
)
def test_an_index_that_only_the_target_has_is_given_up_as_the_hint_says(
    nodes: Nodes, made: str
) -> None:
    fill(nodes, A)
    nodes.leaf.execute(made)
    nodes.leaf.execute("create index other on public.a (v)")
    nodes.add(A)
    nodes.start()
    text = wait_for(lambda: nodes.error(A), what="the reason to be stored")
    _, _, statement = text.partition("has no twi'ce, give it up on this node: ")
    assert statement.startswith("select londiste.copy_piece_done(E'q', E'public.a', E'-- ")
    assert nodes.leaf.execute(statement)[0][0] is True
    nodes.wait_end()
    assert nodes.state(A) == "ok"
    names = (
        "select string_agg(indexname, ' ' order by indexname) from pg_indexes where tablename = 'a'"
    )
    assert nodes.leaf.value(names) == "a_pkey other"


def test_a_table_removed_during_its_copy_is_let_go_at_once(nodes: Nodes) -> None:
    fill(nodes, A)
    nodes.add(A)
    with held(nodes):
        nodes.start()
        wait_for(
            lambda: nodes.leaf.value("select count(*) from londiste.copy_attempt"),
            what="the copy to begin",
        )
        assert nodes.leaf.value("select londiste.copy_stop('q', 'public.a')")
        assert ret(nodes.leaf, "londiste.local_remove_table", "q", "public.a")[0] == 200
        nodes.wait_end()
    assert nodes.failure is None
    assert nodes.consumers() == []
    assert nodes.leaf.value("select count(*) from public.a") == 0
    assert nodes.leaf.value("select count(*) from pg_constraint where conname = 'a_pkey'") == 1


def test_a_stopped_process_leaves_the_table_to_the_next_one(nodes: Nodes) -> None:
    fill(nodes, A)
    nodes.add(A)
    with held(nodes):
        nodes.start()
        wait_for(
            lambda: nodes.leaf.value("select count(*) from londiste.copy_attempt"),
            what="the copy to begin",
        )
        nodes.stop()
    assert nodes.state(A) == "in-copy"
    assert nodes.leaf.value("select dropped_ddl from londiste.table_info")
    nodes.signals = Signals(stop_timeout=30)
    nodes.start()
    nodes.wait_end()
    assert nodes.state(A) == "ok"
    assert same(nodes, A)


def test_a_consumer_left_behind_is_taken_away(nodes: Nodes) -> None:
    nodes.add(A)
    nodes.set_state(A, "ok")
    nodes.root.execute("select pgq.register_consumer('q', 'w2.copy.public.a')")
    ret(nodes.leaf, "pgq_node.register_consumer", "q", "w2.copy.public.a", "n1", 1)
    nodes.start()
    nodes.wait_end()
    assert nodes.consumers() == []


def test_a_copy_waits_until_the_provider_has_the_table(nodes: Nodes) -> None:
    fill(nodes, A)
    nodes.add(A)
    nodes.root.execute("update londiste.table_info set merge_state = 'in-copy'")
    nodes.start()
    with nodes.leaf.connect() as conn:
        assert progress.read(conn, "q") == []
    assert nodes.state(A) == "in-copy"
    nodes.root.execute("update londiste.table_info set merge_state = 'ok'")
    nodes.wait_end()
    assert nodes.state(A) == "ok"


def test_a_second_process_is_refused(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("londiste.copy.process._LOCK_PATIENCE", 0.2)
    fill(nodes, A)
    nodes.add(A)
    with held(nodes):
        nodes.start()
        wait_for(
            lambda: nodes.leaf.value("select count(*) from londiste.copy_attempt"),
            what="the copy to begin",
        )
        with pytest.raises(NodeBusy, match="another process copies"):
            nodes.process().run(Signals())
    nodes.wait_end()


def test_wanted_tables_have_to_be_known_and_in_copy(nodes: Nodes) -> None:
    with pytest.raises(UnknownTable, match=r"public\.a: not replicated on this node"):
        nodes.process(A).run(nodes.signals)
    nodes.add(A)
    nodes.leaf.execute("update londiste.table_info set merge_state = null")
    with pytest.raises(StateError, match="its copy waits for the worker"):
        nodes.process(A).run(nodes.signals)


def test_the_plan_says_what_is_next_and_touches_nothing(nodes: Nodes) -> None:
    fill(nodes, A)
    nodes.add(A, B)
    nodes.set_state(B, "catching-up")
    lines = [step.describe() for step in nodes.process().plan()]
    assert len(lines) == 2
    # What is nearest to its end goes first: at the end of that the worker waits for it.
    assert lines[0].startswith("public.b: build missing indexes")
    assert lines[1].startswith("public.a: empty it, copy all rows")
    assert nodes.consumers() == []


def test_the_progress_shows_rows_bytes_and_chunks(nodes: Nodes) -> None:
    fill(nodes, A)
    nodes.add(A)
    with held(nodes):
        nodes.start()
        with nodes.leaf.connect() as conn:
            (item,) = wait_for(lambda: progress.read(conn, "q"), what="the copy to begin")
    assert item.table == "public.a"
    assert item.total_chunks > 1
    assert item.total_bytes > 100_000
    # A block per task may be on its way: the binary format's head is read before the first row.
    assert item.rows == 0
    assert item.fraction < 0.5
    assert "public.a: 0 rows" in progress.line(item)
    nodes.wait_end()


@pytest.mark.parametrize("resumable_from", first([0, None]))
def test_a_table_is_copied_whose_key_is_generated(nodes: Nodes, resumable_from: int | None) -> None:
    if resumable_from is not None:
        nodes.resumable_from = resumable_from
    for side in (nodes.root, nodes.leaf):
        side.execute(
            "drop table if exists public.a; create table public.a"
            " (id int4 generated always as (n * 2) stored primary key, n int4, v text)"
        )
    nodes.root.execute(
        "insert into public.a (n, v) select i, 'v' || i from generate_series(1, 5000) i"
    )
    nodes.add(A)
    with held(nodes):
        nodes.start()
        wait_for(
            lambda: nodes.leaf.value("select count(*) from londiste.copy_attempt"),
            what="the copy to begin",
        )
        nodes.root.execute(
            "insert into public.a (n, v) select i, 'l' from generate_series(5001, 5900) i"
        )
        nodes.root.execute("delete from public.a where n % 7 = 0")
        nodes.root.execute("update public.a set n = -n where n % 11 = 0")
        nodes.root.execute("update public.a set v = 'x' where n % 5 = 0")
    nodes.wait_end()
    assert nodes.failure is None
    assert nodes.state(A) == "ok"
    assert same(nodes, A)


def test_a_copy_beside_the_rows_of_another_source_keeps_the_key(nodes: Nodes) -> None:
    nodes.root.execute("insert into public.b values (1, 'again'), (2, 'of b')")
    nodes.add(A, B)
    nodes.leaf.execute(
        "update londiste.table_info set merge_state = 'ok' where table_name = 'public.a'"
    )
    nodes.leaf.execute(
        "update londiste.table_info set dest_table = 'public.a', table_attrs = 'skip_truncate=1'"
        " where table_name = 'public.b'"
    )
    nodes.leaf.execute(
        "create index av on a (v); set session_replication_role = replica;"
        " insert into a values (1, 'of b'), (3, 'of a'); reset session_replication_role"
    )
    nodes.start(B)
    error = wait_for(lambda: nodes.error(B), what="the duplicate key")
    assert 'violates unique constraint "a_pkey"' in error
    assert "delete the rows of public.b from public.a on this node" in error
    # Meanwhile the other source finds its rows by the key.
    keys = "select indexrelid::regclass::text from pg_index where indrelid = 'a'::regclass"
    assert ("a_pkey",) in nodes.leaf.execute(keys)
    nodes.leaf.execute(
        "set session_replication_role = replica; delete from a where id = 1;"
        " reset session_replication_role"
    )
    nodes.wait_end()
    assert nodes.state(B) == "ok"
    assert nodes.leaf.execute(ROWS.format("a")) == [(1, "again"), (2, "of b"), (3, "of a")]
    assert sorted(nodes.leaf.execute(keys)) == [("a_pkey",), ("av",)]
