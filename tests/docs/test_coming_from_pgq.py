"""The migration that the page describes moves queues with their numbers."""

from __future__ import annotations

import re
from pathlib import Path

import londiste
from londiste.cli.queue import COMMANDS as QUEUE_COMMANDS
from tests.fixtures.cluster import Database, create_database

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "coming-from-pgq.md"


def note() -> str:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"(?s)```sql\n(-- note\.sql.*?)```", text)
    assert found
    return found.group(1)


def test_the_noted_statements_make_the_queues_again_with_consumers_triggers_and_numbers(
    pgq_db: Database,
) -> None:
    table = "create table t (id int primary key, v text);"
    pgq_db.execute(
        table + "select pgq.create_queue('it''s');"
        "select pgq.set_queue_config('it''s', 'ticker_max_lag', '7 seconds');"
        "create trigger cap after insert on t for each row execute function"
        " pgq.logutriga('it''s', 'ignore=v')"
    )
    pgq_db.execute(
        "select pgq.register_consumer('it''s', 'one'), pgq.register_consumer('it''s', 'two')"
    )
    for number in range(5):
        pgq_db.execute("insert into t values (%s, 'x')", number)
        pgq_db.execute("select pgq.force_tick('it''s')")
        pgq_db.execute("select pgq.ticker()")
        for name in ("one", "two"):
            batch = pgq_db.value("select pgq.next_batch('it''s', %s)", name)
            pgq_db.execute("select pgq.finish_batch(%s)", batch)

    statements = [one for (one,) in pgq_db.execute(note())]
    new = create_database(pgq_db.cluster, pgq=True)
    try:
        new.execute(table)
        for statement in statements:
            new.execute(statement)

        positions = "select queue_name, consumer_name, last_tick from pgq.get_consumer_info()"
        assert new.execute(positions) == pgq_db.execute(positions)
        config = "select queue_name, queue_ticker_max_lag, last_tick_id from pgq.get_queue_info()"
        assert new.execute(config) == pgq_db.execute(config)
        ids = [
            (
                database.value("insert into t values (99, 'y') returning id"),
                database.execute("select pgq.force_tick('it''s')")
                and database.execute("select pgq.ticker()"),
                database.value("select pgq.next_batch('it''s', 'one')"),
            )
            for database in (pgq_db, new)
        ]
        batch_old, batch_new = ids[0][2], ids[1][2]
        assert batch_new >= batch_old
        events = "select ev_id, ev_type, ev_data, ev_extra1 from pgq.get_batch_events(%s)"
        (before,), (after,) = pgq_db.execute(events, batch_old), new.execute(events, batch_new)
        assert after[1:] == before[1:]
        assert after[0] >= before[0]
    finally:
        new.drop()


def test_the_queue_commands_that_the_page_names_are_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:londiste )?(?:-c FILE )?queue ([a-z-]+)", text))
    assert {"mover", "simple-consumer"} <= named <= set(QUEUE_COMMANDS)


def test_the_classes_that_the_page_names_are_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text[text.index("## Python classes") : text.index("## The helper library")]
    words = re.findall(r"`(?:delivery = |raise )?([A-Z][A-Z_]+|[A-Z][A-Za-z]+)[`(.]", ours(table))
    assert {"CascadedConsumer", "LOCAL_FILE", "Producer", "Retry"} <= set(words)
    assert set(words) <= set(londiste.__all__)


def ours(table: str) -> str:
    """The columns of the table that are about this program."""
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| ")]
    return "\n".join(row[2] for row in rows)
