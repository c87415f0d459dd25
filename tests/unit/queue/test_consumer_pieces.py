"""The pure pieces of consumers: conditions, one pass over events, contracts, numbers."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest
from psycopg import sql

import londiste
from londiste import Batch, Delivery, Event, Events
from londiste.consumer import filters
from londiste.consumer.context import Context
from londiste.consumer.contracts import STEPS
from londiste.consumer.event_loop import format_error
from londiste.daemon.statistics import BatchStatistics
from londiste.errors import BadOption, StateError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BATCH = Batch(7, "q", "c", 1, 2, NOW, NOW, 1, 5)


def event(number: int) -> Event:
    return Event(number, NOW, 1, None, "t", str(number), None, None, None, None)


def events(*sizes: int) -> Events:
    numbers = iter(range(100))
    return Events(BATCH, iter([[event(next(numbers)) for _ in range(n)] for n in sizes]))


def context(delivery: Delivery) -> Context:
    def nothing() -> None: ...

    return Context(BATCH, delivery, nothing, one=lambda e, f, c: None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"types": ["a", "it's"]}, "ev_type = any ('{a,it''s}'::text[])"),
        ({"tables": ["one"]}, "ev_extra1 = any ('{one,public.one}'::text[])"),
        ({"tables": ["s.one", "s.one"]}, "ev_extra1 = any ('{s.one}'::text[])"),
        ({"where": "ev_id > 5 -- so"}, "ev_id > 5 -- so\n"),
        ({"where": sql.SQL("ev_data = {}").format("x'y")}, "ev_data = 'x''y'"),
        ({"types": ["a"], "where": "true"}, ") and ("),
    ],
)
def test_what_is_wanted_becomes_one_condition(
    given: dict[str, object], expected: str | None
) -> None:
    found = filters.condition(**given)  # type: ignore[arg-type]
    text = found.as_string(None) if found is not None else None
    assert (text is None) == (expected is None)
    if text is not None and expected is not None:
        assert expected in text.replace(" E'", " '"), text


def test_a_table_without_a_name_is_refused() -> None:
    with pytest.raises(BadOption, match="not a table name"):
        filters.condition(tables=["s."])


def test_events_are_read_once_and_counted() -> None:
    some = events(2, 1)
    assert [e.id for e in some] == [0, 1, 2]
    assert some.count == 3
    some.require_read()
    with pytest.raises(StateError, match="were read already"):
        list(some.chunks())


def test_unread_events_are_noticed() -> None:
    events().require_read()
    events(0).skip_rest()
    some = events(2)
    for _ in some:
        break
    for unread in (some, events(1)):
        with pytest.raises(
            StateError, match="batch 7 of queue q: process_batch left events unread"
        ):
            unread.require_read()
        unread.skip_rest()
        unread.require_read()


def test_every_contract_has_its_steps() -> None:
    assert set(STEPS) == set(Delivery)
    assert {d.name: (d.may_retry, d.may_bury, d.one_transaction) for d in Delivery} == {
        "AT_MOST_ONCE": (False, False, False),
        "AT_LEAST_ONCE": (True, True, False),
        "EXACTLY_ONCE_HERE": (True, True, True),
        "EXACTLY_ONCE_ELSEWHERE": (False, True, True),
        "EXACTLY_ONCE_ELSEWHERE_BY_BATCH": (True, True, True),
        "ONCE_PER_EVENT": (True, True, False),
        "LOCAL_FILE": (False, True, False),
        "CASCADE_NODE": (False, False, True),
    }


def test_the_context_remembers_what_becomes_of_an_event() -> None:
    ctx = context(Delivery.AT_LEAST_ONCE)
    ctx.retry(event(1), 5, "later")
    ctx.dead(event(2), "never")
    ctx.retry(event(2), 0)
    found = [(o.event_id, o.seconds, o.reason) for o in ctx.returned]
    assert found == [(1, 5, "later"), (2, 0, "")]
    with pytest.raises(StateError, match="invalid retry delay: -1 seconds"):
        ctx.retry(event(1), -1)
    with pytest.raises(StateError, match="cannot make it a dead letter"):
        context(Delivery.AT_MOST_ONCE).dead(event(1), "x")


def test_the_line_of_statistics(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "londiste")
    numbers = BatchStatistics(3600, 0)
    numbers.log_when_due()
    assert caplog.messages[-1].startswith("{count: 0, batches: 0, duration: 0.00, idle: ")
    ctx = context(Delivery.AT_LEAST_ONCE)
    ctx.stats["mails"] += 3
    ctx.dead(event(1), "x")
    ctx.retry(event(2))
    numbers.count(12, 0.5, ctx.counters())
    numbers.log_when_due()
    assert len(caplog.messages) == 1
    numbers.log_when_due(now=True)
    assert "count: 12, batches: 1, duration: 0.50" in caplog.messages[-1]
    assert caplog.messages[-1].endswith("dead: 1, mails: 3, retried: 1}")


def test_an_exception_is_told_in_one_line() -> None:
    assert format_error(ValueError("a\n  b")) == "ValueError: a b"
    assert format_error(KeyError()) == "KeyError"


def test_the_names_of_the_package_are_there_and_loaded_late() -> None:
    import subprocess
    import sys

    code = "import sys, londiste; assert not [m for m in sys.modules if 'psycopg' in m]; "
    code += "londiste.Consumer; assert 'psycopg' in sys.modules; dir(londiste)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    for name in londiste.__all__:
        assert getattr(londiste, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        londiste.Nonsense  # noqa: B018
