"""Tables that no event may make a dispatcher write, whatever its role may do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from londiste.errors import BadOption, EventError
from londiste.pgq import queues
from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_root
from tests.integration.consumer.test_dispatch_presets import QUEUE, SOME, Ends
from tests.support.suite.slow import only

ALL: dict[str, Any] = {"handler": "bulk_direct", "part_field": None}
#: Type, data and table of events that a producer may insert.
FORGED = [
    ("U:oid", "oid=ROLE&rolsuper=t", "pg_catalog.pg_authid"),
    ("I:oid", "oid=1&rolname=x", "pg_catalog.pg_authid"),
    ("U:queue_name", f"queue_name={QUEUE}&queue_disable_insert=t", "pgq.queue"),
    ("U:node_name", "node_name=root&node_location=x", "pgq_node.node_location"),
    ("R", "", "pgq_ext.completed_tick"),
    ("D:id", "id=1", "londiste.table_info"),
    ('{"op":"INSERT","table":["public","t"],"pkey":["x"]}', '{"x":"1"}', "londiste_apply.x"),
    ('{"op":"TRUNCATE","table":["pgq","queue"],"pkey":[]}', "", None),
    ("I:x", "x=1", "pg_temp.x"),
    ("I:x", "x=1", "information_schema.sql_features"),
]


@pytest.fixture
def ends(pgq_db: Database, new_database: Callable[..., Database]) -> Ends:
    queues.create_queue(pgq_db.connect(), QUEUE)
    ends = Ends(pgq_db, new_database(pgq=True))
    ends.table("t")
    return ends


def insert(ends: Ends, kind: str, data: str, table: str | None) -> int:
    with ends.source.connect() as conn:
        conn.execute("set role pgq_writer")
        row = conn.execute(
            "select pgq.insert_event(%s, %s, %s, %s, null, null, null)", [QUEUE, kind, data, table]
        ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("kind", "data", "table"), only(FORGED, FORGED[0], FORGED[4], FORGED[7], FORGED[8])
)
def test_an_event_names_no_table_of_the_server_or_of_londiste(
    ends: Ends, kind: str, data: str, table: str | None
) -> None:
    role = f"lowly_{ends.target.name}"
    ends.target.execute(f"create role {role}")
    try:
        oid = ends.target.value("select oid from pg_roles where rolname = %s", role)
        ends.dispatcher(**ALL)
        ends.source.execute("insert into t values (1, now(), 'before')")
        number = insert(ends, kind, data.replace("ROLE", str(oid)), table)
        ends.tick()
        with pytest.raises(EventError) as caught:
            ends.dispatcher(**ALL).run_once()
        assert not ends.target.value("select rolsuper from pg_roles where rolname = %s", role)
    finally:
        ends.target.execute(f"drop role {role}")
    error = caught.value
    assert f"event {number} names table" in error.message
    assert "which a dispatcher does not write" in error.message
    assert f"--set skip_events={number};" in error.hint
    # The position is kept, so the batch comes again, without the event.
    assert ends.rows("t") == {}
    ends.dispatcher(**ALL, skip_events=str(number)).run_once()
    assert ends.rows("t")["t", 1, "before"] == 1


@pytest.mark.parametrize("engine", SOME)
def test_partitions_and_jobs_keep_to_it(ends: Ends, engine: str) -> None:
    given: dict[str, Any] = {"engine": engine, "parallel_apply_min_events": 2}
    ends.dispatcher(**given)
    ends.source.execute("insert into t values (1, '2026-02-03', 'before')")
    insert(ends, "I:queue_name", "queue_name=x&at=2026-02-03", "pgq.queue")
    ends.tick()
    with pytest.raises(EventError, match=r"names table pgq\.queue, which a dispatcher"):
        ends.dispatcher(**given).run_once()
    assert ends.target.value("select to_regclass('pgq.queue_2026_02_03')") is None
    assert ends.rows("t") == {}


def test_ignored_tables_and_tables_with_another_target_continue(ends: Ends) -> None:
    ends.target.execute("create schema archive; create table archive.settings (x text)")
    given: dict[str, Any] = {
        **ALL,
        "tables": {
            "pgq.queue": {"table_mode": "ignore"},
            "pg_catalog.pg_settings": {"table": "archive.settings", "handler": "bulk_direct"},
        },
    }
    ends.dispatcher(**given)
    insert(ends, "I:queue_name", "queue_name=x", "pgq.queue")
    insert(ends, "I:x", "x=1", "pg_catalog.pg_settings")
    ends.tick()
    ends.dispatcher(**given).run_once()
    assert ends.target.execute("select x from archive.settings") == [("1",)]


def test_settings_name_none_either(ends: Ends) -> None:
    settings: list[dict[str, Any]] = [
        {"tables": {"public.t": {"table": "pgq.queue"}}},
        {"tables": {"pg_catalog.pg_authid": {"fields": "oid"}}},
        {"table_filter": "public.t", "table": "londiste.table_info"},
        {"table_filter": "public.t,pgq.queue"},
    ]
    for given in settings:
        with pytest.raises(BadOption, match="is not available as target") as caught:
            ends.dispatcher(**ALL, **given).run_once()
        assert caught.value.hint, given


def test_a_template_names_no_such_schema(ends: Ends) -> None:
    given: dict[str, Any] = {"part_name": "pgq.x_%(year)s_%(month)s_%(day)s"}
    with pytest.raises(BadOption, match="would be in schema pgq"):
        ends.dispatcher(**given).run_once()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if "no setting names the tables" in record.getMessage()
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"table_filter": "public.t"},
        {"table_mode": "ignore", "tables": {"public.t": {"table_mode": "direct"}}},
    ],
)
def test_a_superuser_who_may_be_led_to_every_table_is_a_warning(
    ends: Ends, caplog: pytest.LogCaptureFixture, given: dict[str, Any]
) -> None:
    ends.dispatcher(**ALL).run_once()
    (said,) = warnings(caplog)
    assert f"insert events into queue {QUEUE} can change them all" in said
    caplog.clear()
    ends.dispatcher(**ALL, **given).run_once()
    assert warnings(caplog) == []


def test_events_of_a_node_are_those_of_captures_and_administrators(
    ends: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    make_root(ends.source, QUEUE)
    ends.dispatcher(**ALL).run_once()
    assert warnings(caplog) == []
