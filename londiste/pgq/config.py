"""The settings of a queue: which there are, what values they take, what they are now.

Values are texts, in the notation that ``set_queue_config`` takes.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import psycopg

from londiste.db.connection import Connection, whereabouts
from londiste.db.queries import query
from londiste.errors import BadOption, from_database

_TRUE = {"true", "t", "yes", "y", "on", "1"}
_FALSE = {"false", "f", "no", "n", "off", "0"}


@dataclass(frozen=True)
class Parameter:
    """One setting.

    least, most -- limits of a number.
    nullable -- ``null`` is a value: no limit, none.
    """

    kind: Literal["count", "interval", "yes or no", "functions"]
    help: str
    least: int = 0
    nullable: bool = False
    most: int = 2**31 - 1


PARAMETERS: dict[str, Parameter] = {
    "ticker_max_count": Parameter("count", "tick when there are this many new events", 1),
    "ticker_max_lag": Parameter("interval", "tick when new events have waited this long"),
    "ticker_idle_period": Parameter("interval", "longest time between ticks without events"),
    "ticker_paused": Parameter("yes or no", "make no ticks"),
    "rotation_period": Parameter("interval", "shortest time between two rotations"),
    "external_ticker": Parameter("yes or no", "ticks come from another database"),
    "per_tx_limit": Parameter("count", "most events of one transaction", 1, nullable=True),
    "disable_insert": Parameter("yes or no", "refuse events"),
    "ntables": Parameter("count", "event tables that rotation goes through", 2, most=100),
    "extra_maint": Parameter("functions", "maintenance functions to call", nullable=True),
    "max_retries": Parameter("count", "then an event is a dead letter", 0, nullable=True),
    "key_retention": Parameter("interval", "how long keys of events are remembered"),
    "packed_events": Parameter("yes or no", "one event may carry many rows"),
}


def parameter(name: str) -> str:
    """The name of a parameter, which may have ``queue_`` in front; BadOption if it is none."""
    plain = name.strip().lower().removeprefix("queue_")
    if plain in PARAMETERS:
        return plain
    close = difflib.get_close_matches(plain, PARAMETERS, n=1)
    raise BadOption(
        f"no queue parameter {name}",
        hint=f"did you mean {close[0]}?" if close else "parameters: " + ", ".join(PARAMETERS),
    )


def value(name: str, text: str | None) -> str | None:
    """The value for a parameter as ``set_queue_config`` takes it; ``null`` becomes None.

    Raises BadOption for what no server would take, or takes and cannot mean.  Intervals are left
    to the server, whose notation it is.
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
            raise BadOption(f"parameter {key} is given twice", hint="leave one of them away")
        found[key] = value(key, text)
    return found


def read(conn: Connection, queue: str | None = None) -> dict[str, dict[str, str | None]]:
    """The settings of a queue, or of all: queue -> parameter -> value.

    A parameter that the schema in the database does not know yet is left out.
    """
    try:
        rows = conn.execute(query("queue_config"), {"queue": queue}).fetchall()
    except psycopg.Error as error:
        raise from_database(error, where=whereabouts(conn)) from error
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


__all__ = ["PARAMETERS", "Parameter", "assignments", "parameter", "read", "value"]
