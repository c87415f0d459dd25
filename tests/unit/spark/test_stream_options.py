"""Options of ``format("pgq")``: accepted, refused, and the error texts."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from londiste.engine.spark.stream.options import NAMES, Mode, Payload, parse
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


def test_a_password_is_not_shown() -> None:
    found = parse({**GOOD, "password": "geheim"})
    assert "geheim" not in repr(found)
    assert "password=geheim" in pickle.loads(pickle.dumps(found)).conninfo
    with pytest.raises(BadOption, match="dsn has a password") as refused:
        parse({"dsn": "postgresql://u:geheim@h/d", "queue": "q"})
    assert "geheim" not in f"{refused.value}{refused.value.detail}{refused.value.hint}"


@pytest.mark.parametrize(
    ("options", "stream", "message"),
    [
        ({"queue": "q"}, None, "give service or dsn"),
        ({**GOOD, "dsn": "dbname=x"}, None, "give service or dsn"),
        ({"service": "shop"}, None, "the option queue is missing"),
        ({"dsn": "dbname", "queue": "q"}, None, "dsn is not a connection string"),
        ({**GOOD, "maxTicks": "1"}, None, "unknown option maxTicks"),
        ({**GOOD, "maxTicksPerTrigger": "0"}, None, "maxTicksPerTrigger is '0'"),
        ({**GOOD, "mode": "all"}, None, "mode is 'all'"),
        ({**GOOD, "tables": "a..b,.c"}, None, "not a table name"),
        ({**GOOD, "payload": "typed"}, None, "payload=typed is for one table, not 0"),
        ({**GOOD, "payload": "raw", "tables": "t"}, None, "tables does not go with payload=raw"),
        ({**GOOD, "mode": "snapshot"}, None, "payload=json does not go with mode=snapshot"),
        ({**GOOD, "startingTick": "1", "startingOffsets": "latest"}, None, "do not go together"),
        ({**GOOD, "startingTimestamp": "soon"}, None, "startingTimestamp is 'soon'"),
        ({**GOOD}, True, "a stream needs the option consumer"),
        ({**GOOD, "consumer": "c", "endingTick": "5"}, True, "endingTick is for spark.read"),
        ({**GOOD, "consumer": "c"}, False, "consumer is for spark.readStream"),
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
