"""Control events are authenticated by their writer; producers cannot forge them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from londiste.db.connection import Connection
from tests.fixtures.cluster import Database
from tests.support.suite.slow import pairs

#: Calls of administrators, each of which writes one control event.
ENTITLED = {
    "insert_event": "select pgq.insert_event('q', {}, 'd')",
    "insert_event with extras": "select pgq.insert_event('q', {}, 'd', 'a', null, null, null)",
    "insert_events": "select pgq.insert_events('q', array['row', {}], array['1', '2'])",
    "insert_event_at": "select pgq.insert_event_at('q', '-infinity', {}, 'd')",
    "insert_event_once": "select pgq.insert_event_once('q', 'key', {}, 'd')",
    "insert_event_raw": "select pgq.insert_event_raw("
    "'q', null, null, null, null, {}, 'd', null, null, null, null)",
}
#: Calls of the cascade and of replication: the last control event they write.
CASCADE = {
    "pgq.location-info": "select pgq_node.register_location('q', 'new', 'dbname=new', false)",
    "pgq.unregister-location": "select pgq_node.unregister_location('q', 'leaf')",
    "pgq.global-watermark": "select pgq_node.set_global_watermark('q', null)",
    "londiste.add-table": "select londiste.local_add_table('q', 'public.t')",
    "londiste.update-seq": "select londiste.local_add_seq('q', 'public.s')",
    "EXECUTE": "select londiste.execute_start('q', 'x.sql', 'select 1', true);"
    " select londiste.execute_finish('q', 'x.sql')",
}
#: What takes every producer for entitled.
HOLE = (
    "create or replace function pgq._require_producer(i_queue_name text, i_type text, i_table text,"
    " i_role name) returns void language sql as 'select'"
)
TYPES = ("EXECUTE", "pgq.location-info", "londiste.add-table")
#: Leaves only what batches may have.
OLDEST = (
    "delete from pgq.event_1 where ev_txid <"
    " (select min(txid_snapshot_xmin(tick_snapshot)) from pgq.tick)"
)
EVENTS = (
    "select ev_id, ev_txid, ev_type from pgq.event_1"
    " where ev_type ~ '^(EXECUTE$|pgq[.]|londiste[.])' order by ev_id"
)


@pytest.fixture
def root(pgq_db: Database) -> Iterator[Connection]:
    """A session of the administrator of queue q, whose first node this database is."""
    with pgq_db.connect() as conn:
        conn.execute("set search_path = public")
        conn.execute(
            "select pgq_node.register_location('q', 'root', 'dbname=root', false);"
            " select pgq_node.create_node('q', 'root', 'root', 'root.w', null, null, null);"
            " select pgq_node.register_location('q', 'leaf', 'dbname=leaf', false);"
            " create table t (id int primary key); create sequence s"
        )
        yield conn


@pytest.fixture
def forger(pgq_db: Database, root: Connection) -> Iterator[str]:
    """A producer to whom somebody gave rights on the tables of the queue by hand."""
    role = f"forger_{pgq_db.name}"
    root.execute(f"create role {role} in role pgq_writer")
    for table in ("event_1", "event_1_0", "event_1_1", "event_1_2"):
        root.execute(f"grant insert on pgq.{table} to {role}")
    root.execute(f"grant usage on sequence pgq.event_1_id_seq to {role}")
    yield role
    root.execute(f"reset role; drop owned by {role}; drop role {role}")


def unproven(conn: Connection) -> list[str]:
    """The types of the control events that a subscriber is told not to obey."""
    events = conn.execute(EVENTS).fetchall()
    refused = {
        row[0]
        for row in conn.execute(
            "select pgq.unproven_events('q', %s, %s, %s)",
            [[e[0] for e in events], [e[1] for e in events], [e[2] for e in events]],
        )
    }
    return [kind for number, _, kind in events if number in refused]


def last_type(conn: Connection) -> str | None:
    events = conn.execute(EVENTS).fetchall()
    return events[-1][2] if events else None


@pytest.mark.parametrize(("call", "kind"), pairs(ENTITLED, TYPES))
def test_what_an_administrator_writes_is_proven(root: Connection, call: str, kind: str) -> None:
    root.execute("set role pgq_admin")
    root.execute(ENTITLED[call].format(f"'{kind}'").encode())
    assert last_type(root) == kind
    assert unproven(root) == []


@pytest.mark.parametrize("kind", CASCADE)
def test_what_the_cascade_writes_is_proven(root: Connection, kind: str) -> None:
    root.execute("select pgq.force_tick('q'); select pgq.ticker('q')")
    root.execute(CASCADE[kind].encode())
    assert kind in {row[2] for row in root.execute(EVENTS)}
    assert unproven(root) == []


def test_rows_and_other_types_are_not_noted(root: Connection) -> None:
    before = root.execute("select * from pgq.control_event").fetchall()
    root.execute("select londiste.create_capture('q', 'public.t')")
    root.execute("insert into t values (1); update t set id = 2; truncate t")
    for kind in ("R", "I:id", "app", "execute", "EXECUTE ", "xpgq.x", "pgq", "londiste"):
        root.execute("select pgq.insert_event('q', %s, 'd')", [kind])
    assert root.execute("select * from pgq.control_event").fetchall() == before


@pytest.mark.parametrize("call", [one for one in ENTITLED if one != "insert_event_raw"])
def test_the_hint_names_the_role_whose_rights_were_looked_at(
    root: Connection, forger: str, call: str
) -> None:
    root.execute(f"grant create on schema public to {forger}; set role {forger}")
    body = ENTITLED[call].format("'EXECUTE'")
    made = f"create function put() returns void language sql security definer as $${body}$$"
    root.execute(made.encode())
    root.execute("set role pgq_reader")
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught:
        root.execute("select put()")
    assert f"grant londiste_writer to {forger};" in str(caught.value.diag.message_hint)


@pytest.mark.parametrize(("call", "kind"), pairs(ENTITLED, TYPES))
def test_a_hole_in_the_first_check_proves_nothing(
    root: Connection, forger: str, call: str, kind: str
) -> None:
    root.execute(HOLE)
    root.execute(f"set role {forger}")
    root.execute(ENTITLED[call].format(f"'{kind}'").encode())
    root.execute("reset role")
    assert last_type(root) == kind
    assert unproven(root) == [kind]


@pytest.mark.parametrize("kind", TYPES)
def test_an_event_straight_in_the_table_is_not_proven(
    root: Connection, forger: str, kind: str
) -> None:
    root.execute(f"set role {forger}")
    root.execute(f"insert into pgq.event_1_0 (ev_time, ev_type) values (now(), '{kind}')")
    root.execute("reset role")
    assert unproven(root) == [kind]


def test_a_compatible_trigger_proves_nothing_for_who_is_no_administrator(
    root: Connection, forger: str
) -> None:
    root.execute(HOLE)
    root.execute(f"grant all on t to {forger}")
    root.execute(
        "create trigger forges after insert on t for each row"
        " execute function pgq.logutriga('q', 'ev_type=''EXECUTE''')"
    )
    root.execute(f"set role {forger}")
    root.execute("insert into t values (1)")
    root.execute("reset role")
    assert unproven(root) == ["EXECUTE"]


@pytest.mark.parametrize(
    "attempt",
    [
        "insert into pgq.control_event values (1, 1, 1, 'EXECUTE')",
        "update pgq.control_event set ev_id = 1",
        "delete from pgq.control_event",
        "select pgq._prove_event('q', 1, 'EXECUTE')",
        "select pgq.prove_forwarded('q', '{1}', '{EXECUTE}')",
        "select pgq.accept_control_event('q', 1)",
        "update pgq.queue set queue_proven_from = null",
    ],
)
def test_a_producer_cannot_prove(root: Connection, forger: str, attempt: str) -> None:
    root.execute(f"set role {forger}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        root.execute(attempt.encode())


def test_the_proof_of_another_event_is_of_no_use(root: Connection, forger: str) -> None:
    root.execute("select pgq.insert_event('q', 'EXECUTE', 'genuine')")
    number, txid, _ = root.execute(EVENTS).fetchall()[-1]
    root.execute(f"set role {forger}")
    root.execute(
        f"insert into pgq.event_1_0 (ev_id, ev_time, ev_type) values ({number}, now(), 'EXECUTE')"
    )
    root.execute(
        "insert into pgq.event_1_0 (ev_id, ev_time, ev_txid, ev_type)"
        f" values ({number}, now(), {txid}, 'pgq.location-info')"
    )
    root.execute("reset role")
    forged = root.execute(
        "select ev_txid, ev_type from pgq.event_1 where ev_id = %s and ev_data is null", [number]
    ).fetchall()
    assert len(forged) == 2
    for other, kind in forged:
        ask = "select pgq.unproven_events('q', array[%s::int8], array[%s::int8], array[%s])"
        assert root.execute(ask, [number, other, kind]).fetchall() == [(number,)]
        assert root.execute(ask, [number, txid, "EXECUTE"]).fetchall() == []


def test_an_administrator_accepts(root: Connection, forger: str) -> None:
    root.execute(f"set role {forger}")
    root.execute("insert into pgq.event_1_0 (ev_time, ev_type) values (now(), 'EXECUTE')")
    root.execute("set role pgq_admin")
    number = root.execute(EVENTS).fetchall()[-1][0]
    accept = "select pgq.accept_control_event('q', %s)"
    assert root.execute(accept, [number]).fetchone() == (1,)
    assert root.execute(accept, [number]).fetchone() == (0,)
    assert unproven(root) == []
    with pytest.raises(psycopg.Error, match="queue q has no control event 999"):
        root.execute(accept, [999])


def test_nothing_is_asked_of_events_of_before(root: Connection, forger: str) -> None:
    root.execute("update pgq.queue set queue_proven_from = null; delete from pgq.control_event")
    root.execute(f"set role {forger}")
    root.execute("insert into pgq.event_1_0 (ev_time, ev_type) values (now(), 'EXECUTE')")
    root.execute("reset role")
    assert unproven(root) == []
    root.execute("select pgq_node.maint_watermark('q')")
    assert unproven(root) == []
    root.execute(f"set role {forger}")
    root.execute("insert into pgq.event_1_0 (ev_time, ev_type) values (now(), 'pgq.x')")
    root.execute("reset role")
    assert unproven(root) == ["pgq.x"]


def test_a_node_proves_by_what_it_is(root: Connection) -> None:
    proves = "select queue_proven_from is not null from pgq.queue"
    assert root.execute(proves).fetchone() == (True,)
    root.execute("update pgq_node.node_info set node_type = 'branch'")
    assert root.execute(proves).fetchone() == (False,)
    root.execute("select pgq.prove_forwarded('q', '{}', '{}')")
    assert root.execute(proves).fetchone() == (True,)
    root.execute("update pgq_node.node_info set node_type = 'branch'")
    root.execute("update pgq_node.node_info set node_type = 'root'")
    assert root.execute(proves).fetchone() == (True,)
    root.execute("update pgq_node.node_info set node_type = 'branch'")
    root.execute("update pgq_node.node_info set node_type = 'root'")
    assert root.execute(proves).fetchone() == (True,)


def test_proofs_go_with_rotation_and_with_the_queue(root: Connection) -> None:
    root.execute("select pgq.set_queue_config('q', 'rotation_period', '0')")
    root.execute("select pgq.insert_event_at('q', now() + interval '1 day', 'EXECUTE', 'later')")
    count = "select count(*) from pgq.control_event where ev_type = %s"

    def rotate(*consumers: str) -> None:
        root.execute("select pgq.insert_event('q', 'londiste.x', 'd')")
        root.execute("select pgq.force_tick('q'); select pgq.ticker('q')")
        for consumer in consumers:
            root.execute(
                "select pgq.register_consumer_at('q', %s, (select max(tick_id) from pgq.tick))",
                [consumer],
            )
        root.execute("select pgq.maint_rotate_tables_step1('q')")
        root.execute("select pgq.maint_rotate_tables_step2()")

    root.execute("select pgq.register_consumer('q', 'slow')")
    for number in range(1, 5):
        rotate(".global_watermark")
        assert root.execute(count, ["londiste.x"]).fetchone() == (number,)
        assert unproven(root) == []
    for _ in range(4):
        rotate(".global_watermark", "slow")
        # What is older is in no batch any more, though its table may not be empty yet.
        root.execute(OLDEST)
        assert unproven(root) == []
    assert (root.execute(count, ["londiste.x"]).fetchone() or (8,))[0] <= 2
    # One that waits is not in a table yet.
    assert root.execute(count, ["EXECUTE"]).fetchone() == (1,)
    root.execute("update pgq.delayed_event set ev_send_at = now() - interval '1 second'")
    root.execute("select pgq.maint_retry_events()")
    assert last_type(root) is not None
    assert "EXECUTE" in {row[2] for row in root.execute(EVENTS)}
    assert unproven(root) == []
    root.execute(
        "delete from pgq_node.local_state; delete from pgq_node.node_info;"
        " select pgq.drop_queue('q', true)"
    )
    assert root.execute("select count(*) from pgq.control_event").fetchone() == (0,)
