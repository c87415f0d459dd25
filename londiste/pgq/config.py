"""Queue settings: their names, accepted values and present values.

Values are texts, in the notation that ``set_queue_config`` takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from londiste.db.connection import Connection
from londiste.db.queries import tuples
from londiste.errors import BadOption
from londiste.wording import did_you_mean

_TRUE = {"true", "t", "yes", "y", "on", "1"}
_FALSE = {"false", "f", "no", "n", "off", "0"}


@dataclass(frozen=True)
class Parameter:
    """One setting of a queue.

    least, most -- limits of a number.
    nullable -- ``null`` is a value: no limit, none.
    """

    kind: Literal["count", "interval", "yes or no", "functions"]
    help: str
    least: int = 0
    nullable: bool = False
    most: int = 2**31 - 1


PARAMETERS: dict[str, Parameter] = {
    "ticker_max_count": Parameter("count", "create a tick after this number of new events", 1),
    "ticker_max_lag": Parameter("interval", "create a tick when new events have waited this long"),
    "ticker_idle_period": Parameter("interval", "longest time between ticks without events"),
    "ticker_paused": Parameter("yes or no", "do not create ticks"),
    "rotation_period": Parameter("interval", "shortest time between two rotations"),
    "external_ticker": Parameter("yes or no", "another database creates the ticks"),
    "per_tx_limit": Parameter(
        "count", "maximum number of events per transaction", 1, nullable=True
    ),
    "disable_insert": Parameter("yes or no", "reject new events"),
    "ntables": Parameter("count", "number of event tables that rotation uses", 2, most=100),
    "extra_maint": Parameter("functions", "maintenance functions to call", nullable=True),
    "max_retries": Parameter(
        "count", "maximum number of retries before an event becomes a dead letter", 0, nullable=True
    ),
    "key_retention": Parameter("interval", "how long producer keys are remembered"),
    "packed_events": Parameter("yes or no", "allow events that contain many rows"),
}


def parameter(name: str) -> str:
    """The name of a parameter without the prefix ``queue_``; BadOption for an unknown one."""
    plain = name.strip().lower().removeprefix("queue_")
    if plain in PARAMETERS:
        return plain
    raise BadOption(
        f"no queue parameter {name}",
        hint=did_you_mean(plain, PARAMETERS, "parameters: " + ", ".join(PARAMETERS)),
    )


def value(name: str, text: str | None) -> str | None:
    """The value for a parameter as ``set_queue_config`` takes it; ``null`` becomes None.

    Raises BadOption for a value that no server accepts or that has no meaning.  The server checks
    intervals.
    """
    known = PARAMETERS[name]
    plain = (text or "").strip()
    if text is None or plain.lower() == "null":
        if not known.nullable:
            raise BadOption(f"parameter {name} needs a value", hint=_example(name, known))
        return None
    if known.kind == "count":
        if (
            not plain.isascii()
            or not plain.isdigit()
            or not known.least <= int(plain) <= known.most
        ):
            raise BadOption(
                f"bad value for parameter {name}: {plain}",
                detail=f"it takes whole numbers from {known.least} to {known.most}",
                hint=_example(name, known),
            )
        return plain
    if known.kind == "yes or no":
        if plain.lower() not in _TRUE | _FALSE:
            raise BadOption(f"bad value for parameter {name}: {plain}", hint=_example(name, known))
        return "true" if plain.lower() in _TRUE else "false"
    if not plain or (known.kind == "interval" and plain.startswith("-")):
        raise BadOption(f"bad value for parameter {name}: {text}", hint=_example(name, known))
    return plain


def assignments(words: list[str]) -> dict[str, str | None]:
    """``KEY=VALUE`` words as parameters and values; BadOption for the first that is wrong."""
    found: dict[str, str | None] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise BadOption(f"not KEY=VALUE: {word}", hint="write ticker_max_lag='1 second'")
        key = parameter(name)
        if key in found:
            raise BadOption(f"parameter {key} is given twice", hint="give it once")
        found[key] = value(key, text)
    return found


def read(conn: Connection, queue: str | None = None) -> dict[str, dict[str, str | None]]:
    """The settings of a queue, or of all: queue -> parameter -> value.

    Parameters unknown to the schema in the database are skipped.
    """
    rows = tuples(conn, "queue_config", queue=queue)
    return {name: _settings(columns) for name, columns in rows}


def _settings(columns: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name: columns[f"queue_{name}"] for name in PARAMETERS if f"queue_{name}" in columns}


def _example(name: str, known: Parameter) -> str:
    examples = {
        "count": "500",
        "interval": "'2 seconds'",
        "yes or no": "yes",
        "functions": "'{my.function}'",
    }
    return f"write {name}={examples[known.kind]}" + (", or null" if known.nullable else "")
