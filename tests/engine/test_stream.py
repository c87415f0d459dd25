"""A queue as a source of Spark: changes as they come, each in one micro-batch and never again.

What needs no Spark to be proved is in test_stream_driver.py and stream/test_types.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from londiste.cli import cli
from londiste.pgq import consumers
from tests.fixtures.cluster import Database
from tests.fixtures.stream import Stream, told

pytestmark = pytest.mark.spark


@pytest.fixture
def stream(spark: Any, new_database: Callable[..., Database], tmp_path: Path) -> Stream:
    return Stream(spark, new_database(pgq=True), tmp_path)


def test_changes_come_once_tick_by_tick_and_a_restart_goes_on(stream: Stream) -> None:
    stream.table()
    ticks = [
        stream.write("insert into t values (1, 'a'), (2, null)"),
        stream.write("update t set v = 'b' where id = 1", "delete from t where id = 2"),
        stream.write("insert into t values (3, 'é')"),
    ]
    # Of a batch that the sink has and Spark does not know of, the repetition is the same.
    stream.fail_in = 1
    with pytest.raises(Exception, match="the sink has failed"):
        stream.run(maxTicksPerTrigger=1)
    assert stream.position() == ticks[0]
    stream.fail_in, written = None, stream.seen.pop(1)
    first = stream.seen.pop(0) + stream.run(maxTicksPerTrigger=1)
    assert stream.seen[1] == written
    stream.seen[0] = first[:2]
    assert [
        {r["_commit_version"] for r in rows} for _, rows in sorted(stream.seen.items()) if rows
    ] == [{tick} for tick in ticks]
    assert told(first) == [
        ("insert", '{"id":1,"v":"a"}'),
        ("insert", '{"id":2,"v":null}'),
        ("update_postimage", '{"id":1,"v":"b"}'),
        ("delete", '{"id":2}'),
        ("insert", '{"id":3,"v":"é"}'),
    ]
    assert {(r["_table"], tuple(r["_key"])) for r in first} == {("public.t", ("id",))}
    # The last batch of such a run is never told as done; the queue knows all the same.
    assert stream.position() == ticks[-1]
    shown = CliRunner().invoke(cli, ["queue", "consumers", "q", "--db", stream.database.dsn])
    assert re.search(rf"lake .*\b{ticks[-1]}\b", shown.output), shown.output
    assert stream.run() == []
    last = stream.write("insert into t values (4, 'c')")
    consumers.pause_consumer(stream.conn, "q", "lake")
    assert stream.run() == []
    consumers.resume_consumer(stream.conn, "q", "lake")
    assert told(stream.run()) == [("insert", '{"id":4,"v":"c"}')]
    assert stream.position() == last
    raw = stream.read(payload="raw").collect()
    assert {r["_commit_version"] for r in raw} == {*ticks, last}
    assert (
        told(stream.read(startingTick=ticks[0], endingTick=ticks[1]).collect()) == told(first)[2:4]
    )


@pytest.mark.slow
def test_rows_of_a_table_are_typed_and_a_value_without_a_place_stops_the_query(
    stream: Stream,
) -> None:
    stream.table("id int primary key, n numeric, d date, t timestamptz, b bytea, j jsonb, o oid")
    stream.table("id int primary key", "other")
    stream.write(
        "insert into t values (1, 1.50, '2026-02-03', '2026-02-03 04:05:06.7+02', '\\x00ff',"
        " '{\"a\": 1}', 4294967295), (2, null, null, null, null, null, null)",
        "delete from t where id = 2",
        "insert into other values (1)",
    )
    typed = {"payload": "typed", "tables": "t", "startingOffsets": "earliest"}
    rows = stream.run(**typed)
    assert [(r["_change_type"], r["id"], r["j"], r["o"], bytes(r["b"] or b"")) for r in rows] == [
        ("insert", 1, '{"a": 1}', 4294967295, b"\x00\xff"),
        ("insert", 2, None, None, b""),
        ("delete", 2, None, None, b""),
    ]
    texts = stream.read(**typed, stringColumns="n,t").selectExpr("n", "t", "d").collect()
    assert [tuple(map(str, row)) for row in texts] == [
        ("1.50", "2026-02-03 02:05:06.7+00", "2026-02-03"),
        ("None", "None", "None"),
        ("None", "None", "None"),
    ]
    stream.write("insert into t (id, n, d) values (3, 'NaN', 'infinity')")
    with pytest.raises(Exception) as failed:
        stream.run(**typed)
    said = str(failed.value)
    assert "column n of table public.t: value out of range of Spark's decimal(38,18)" in said
    assert "or read the column as text with stringColumns=n" in said
    nulls = stream.read(**typed, unsupportedValues="null").where("id = 3").collect()
    assert [(r["n"], r["d"]) for r in nulls] == [(None, None)]
    texts = stream.read(**typed, unsupportedValues="string").where("id = 3").collect()
    assert [(r["n"], r["d"]) for r in texts] == [("NaN", "infinity")]


@pytest.mark.slow
def test_what_is_not_a_change_of_a_row_stops_the_query_unless_it_is_wanted(
    stream: Stream,
) -> None:
    stream.table()
    stream.write("insert into t values (1, 'a')", "truncate t")
    with pytest.raises(Exception, match=r"event \d+: table public\.t was truncated") as failed:
        stream.read().collect()
    assert "onTruncate=row" in str(failed.value)
    assert told(stream.read(onTruncate="row").collect())[1:] == [("truncate", None)]
    assert len(stream.read(onTruncate="ignore").collect()) == 1
    typed = {"payload": "typed", "tables": "public.t", "onTruncate": "ignore"}
    query = stream.load(**typed)
    stream.write("alter table t add column more int", "insert into t values (2, 'b', 3)")
    with pytest.raises(Exception, match="use missingColumns=null to read NULL"):
        stream.read(**typed).collect()
    rows = stream.read(**typed, missingColumns="null").collect()
    assert [(r["id"], r["more"]) for r in rows] == [(1, None), (2, 3)]
    with pytest.raises(Exception, match="the table has changed since"):
        query.writeStream.format("noop").option(
            "checkpointLocation", str(stream.directory / "noop")
        ).trigger(availableNow=True).start().awaitTermination()


@pytest.mark.slow
def test_events_that_are_gone_stop_the_query(stream: Stream) -> None:
    stream.table()
    first = stream.write("insert into t values (1, 'a')")
    stream.run()
    stream.forget()
    middle = stream.write("insert into t values (2, 'b')")
    last = stream.write("insert into t values (3, 'c')")
    stream.database.execute(f"delete from pgq.tick where tick_id <= {first}")
    stream.database.execute(
        "update pgq.queue set queue_history_txid ="
        f" (select txid_snapshot_xmin(tick_snapshot) from pgq.tick where tick_id = {middle})"
    )
    with pytest.raises(Exception, match=f"queue q: events after tick {first} no longer exist"):
        stream.run()
    with pytest.raises(Exception, match=f"queue q: events after tick {first} no longer exist"):
        stream.read(startingTick=first).collect()
    assert told(stream.run(failOnDataLoss=False)) == [("insert", '{"id":3,"v":"c"}')]
    assert stream.position() == last
    # The same numbers of another queue are other events.
    stream.database.execute("select pgq.drop_queue('q', true); select pgq.create_queue('q')")
    for _ in range(9):
        stream.write("select 1")
    with pytest.raises(Exception, match="the queue was dropped and created again"):
        stream.run()


@pytest.mark.slow
def test_two_queries_cannot_share_a_consumer(stream: Stream) -> None:
    stream.table()
    stream.write("insert into t values (1, 'a')")
    query = (
        stream.load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(stream.directory / "one"))
        .start()
    )
    try:
        query.processAllAvailable()
        with pytest.raises(Exception, match="in use by another query"):
            stream.run("two")
    finally:
        query.stop()
    assert len(stream.run("two")) == 1


@pytest.mark.slow
def test_wrong_options_are_named_with_what_to_write(stream: Stream) -> None:
    stream.table()
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({"queu": "q"}, "unknown option queu", "did you mean queue?"),
        ({"queue": "nope"}, "no queue nope", "londiste queue list"),
        ({"consumer": None}, "option consumer: required for a stream", "set a unique name"),
        ({"dsn": "password=geheim dbname=x"}, "dsn: password is not allowed", "passfile"),
        ({"startingTick": 99}, "queue q has no tick 99 yet", "startingOffsets=latest"),
        ({"payload": "typed", "tables": "nope"}, "table public.nope does not exist", "hint:"),
    ]
    for options, message, hint in wrong:
        if "startingTick" in options:
            options["startingOffsets"] = None
        with pytest.raises(Exception) as failed:
            stream.run(str(options), **options)
        said = str(failed.value)
        assert message in said and hint in said, said
        assert "geheim" not in said
    plan = stream.read(password="geheim")._jdf.queryExecution().toString()
    assert "pgq" in plan and "geheim" not in plan
