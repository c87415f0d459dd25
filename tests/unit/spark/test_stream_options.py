"""Options of ``format("pgq")``: accepted, refused, and the error texts."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from pathlib import Path

import pytest

from londiste.engine.spark.stream.options import NAMES, Mode, Net, Payload, parse
from londiste.errors import BadOption

GOOD = {"service": "shop", "queue": "q", "payload": "json"}


def test_options_are_read_in_any_case_of_letters() -> None:
    found = parse(
        {
            "SERVICE": "shop",
            "Queue": "q",
            "maxticksPERtrigger": "5",
            "tables": "a, public.b ,s.c,a",
            "failondataloss": "False",
            "PAYLOAD": "JSON",
        }
    )
    assert (found.dsn, found.queue, found.max_ticks) == ("service=shop", "q", 5)
    assert [str(t) for t in found.tables] == ["public.a", "public.b", "s.c"]
    assert not found.fail_on_loss
    assert (found.mode, found.payload) == (Mode.CHANGES, Payload.JSON)


def test_other_sources_names_mean_the_same() -> None:
    found = parse({**GOOD, "maxOffsetsPerTrigger": "7", "minPartitions": "9"})
    assert (found.max_events, found.partitions) == (7, 9)
    found = parse({**GOOD, "startingTimestamp": "1767225600000", "deduplicationMode": "NetChanges"})
    assert found.start.time == datetime(2026, 1, 1, tzinfo=UTC) and found.start.inclusive
    assert found.net is Net.NET_CHANGES


def test_a_password_is_not_shown() -> None:
    found = parse({**GOOD, "password": "geheim"})
    assert "geheim" not in repr(found)
    assert "password=geheim" in pickle.loads(pickle.dumps(found)).conninfo
    with pytest.raises(BadOption, match="dsn: password is not allowed") as refused:
        parse({"dsn": "postgresql://u:geheim@h/d", "queue": "q"})
    assert "geheim" not in f"{refused.value}{refused.value.detail}{refused.value.hint}"


@pytest.mark.parametrize(
    "given",
    [
        {"service": "shop password=geheim"},
        {"service": "password=geheim"},
        {"service": "shop geheim"},
        {"service": "postgresql://u:geheim@h/d"},
        {"dsn": "dbname=d service='shop password=geheim'"},
    ],
)
def test_a_connection_string_is_no_service(given: dict[str, str]) -> None:
    with pytest.raises(BadOption, match="service: not the name of a section") as refused:
        parse({**given, "queue": "q"})
    assert "geheim" not in f"{refused.value}{refused.value.detail}{refused.value.hint}"


@pytest.mark.parametrize(
    ("options", "stream", "message"),
    [
        ({"queue": "q"}, None, "service, dsn: exactly one"),
        ({**GOOD, "dsn": "dbname=x"}, None, "service, dsn: exactly one"),
        ({"service": "shop"}, None, "option queue: required"),
        ({"dsn": "dbname", "queue": "q"}, None, "dsn: invalid connection string"),
        ({**GOOD, "maxTicks": "1"}, None, "unknown option maxTicks"),
        ({**GOOD, "maxTicksPerTrigger": "0"}, None, "maxTicksPerTrigger: '0' is not an integer"),
        ({**GOOD, "mode": "all"}, None, "mode: invalid value 'all'"),
        ({**GOOD, "tables": "a..b,.c"}, None, "not a table name"),
        ({**GOOD, "payload": "typed"}, None, "payload=typed: 0 tables given"),
        ({**GOOD, "payload": "raw", "tables": "t"}, None, "tables: not supported with payload=raw"),
        ({**GOOD, "mode": "snapshot"}, None, "payload=json: not supported with mode=snapshot"),
        ({**GOOD, "startingTick": "1", "startingOffsets": "latest"}, None, "mutually exclusive"),
        ({**GOOD, "startingTimestamp": "soon"}, None, "startingTimestamp: 'soon' is not an ISO"),
        ({**GOOD}, True, "option consumer: required for a stream"),
        (
            {**GOOD, "consumer": "c", "endingTick": "5"},
            True,
            "endingTick: not supported by spark.readStream",
        ),
        ({**GOOD, "startingVersion": "1", "startingTick": "1"}, None, "mutually exclusive"),
        (
            {**GOOD, "startingTick": "1", "startingBoundInclusive": "true"},
            None,
            "startingBoundInclusive: requires startingVersion or startingTimestamp",
        ),
        ({**GOOD, "endingTick": "1", "endingVersion": "1"}, None, "mutually exclusive"),
        ({**GOOD, "numPartitions": "1", "minPartitions": "2"}, None, "numPartitions: given twice"),
        ({**GOOD, "deduplicationMode": "all"}, None, "deduplicationMode: invalid value 'all'"),
        ({**GOOD, "payload": "raw", "computeUpdates": "true"}, None, "computeUpdates: not supp"),
        ({**GOOD, "consumer": "c", "endingVersion": "5"}, True, "endingVersion: not supported"),
        ({**GOOD, "consumer": "c"}, False, "consumer: not supported by spark.read"),
    ],
)
def test_what_cannot_be_right_is_refused(
    options: dict[str, str], stream: bool | None, message: str
) -> None:
    with pytest.raises(BadOption, match=message) as refused:
        parse(options, stream=stream)
    assert refused.value.hint


def test_every_option_is_documented() -> None:
    page = Path(__file__).parents[3] / "docs/howto/spark-streams.md"
    text = page.read_text(encoding="utf-8")
    assert [name for name in NAMES if f"| `{name}` |" not in text] == []
