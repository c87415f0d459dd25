"""Values of options of Spark, for the source and the sinks.

Spark shows options in its UI and in plans, and redacts only values of options with names such as
``password``.  So a password comes from a password file, a service, or the option ``password``, and
``dsn`` must not contain one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import psycopg
from psycopg import conninfo

from londiste.dsn import SECRETS
from londiste.errors import BadOption

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class GapPolicy(StrEnum):
    """Policy for data that has no place in the result."""

    FAIL = "fail"
    NULL = "null"
    STRING = "string"
    IGNORE = "ignore"
    ROW = "row"
    ROUND = "round"
    AGAIN = "again"


def read_names(given: Mapping[str, str], known: Mapping[str, str], howto: str) -> dict[str, str]:
    """Returns the options under their canonical names.

    known -- canonical name by lower-case name; howto -- page that lists the options.

    Raises BadOption for an unknown option.
    """
    options: dict[str, str] = {}
    for name, value in given.items():
        own = known.get(name.lower())
        if own is None:
            near = difflib.get_close_matches(name.lower(), known, 1)
            raise BadOption(
                f"unknown option {name}",
                hint=f"did you mean {known[near[0]]}?" if near else f"see {howto}",
            )
        if own in options and options[own] != str(value):
            raise BadOption(
                f"option {own}: given twice, with different values", hint=f"set only {own}"
            )
        options[own] = str(value)
    return options


def read_dsn(options: Mapping[str, str]) -> str:
    """The connection string of ``dsn`` or ``service``.  Raises BadOption for a password in it."""
    dsn, service = options.get("dsn", ""), options.get("service", "")
    if bool(dsn) == bool(service):
        raise BadOption(
            "service, dsn: exactly one of the two is required",
            hint="use a section of pg_service.conf, .option('service', 'shop'), or a connection"
            " string, .option('dsn', 'host=db1 dbname=shop user=lake')",
        )
    if service:
        _require_section(service)
        return conninfo.make_conninfo(service=service)
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        raise BadOption(
            "dsn: invalid connection string",
            hint="use libpq syntax: host=… port=… dbname=… user=…, or postgresql://…",
        ) from None
    for secret in SECRETS:
        if parts.get(secret):
            raise BadOption(
                f"dsn: {secret} is not allowed",
                detail="the Spark UI displays the value of dsn",
                hint="use a password file (passfile=…, ~/.pgpass), a service, or"
                " .option('password', …), whose value Spark redacts",
            )
    _require_section(str(parts.get("service") or ""))
    return dsn


def _require_section(service: str) -> None:
    """Refuses a connection string as a service: it may contain a password."""
    if re.search(r"[\s=]|://", service):
        raise BadOption(
            "service: not the name of a section of pg_service.conf",
            detail="the value, which contains a space, = or ://, may have a password: not shown",
            hint="use the name alone, .option('service', 'shop'), and .option('password', …)",
        )


#: Of PostgreSQL's bigint, and of Spark's long.
_LARGEST = 2**63 - 1


def names_in(text: str) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


class Reader:
    """Typed option values; every method raises BadOption."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options

    def required(self, name: str, hint: str) -> str:
        """Text of a required option."""
        value = self.options.get(name, "").strip()
        if not value:
            raise BadOption(f"option {name}: required", hint=hint)
        return value

    def number(self, name: str, least: int) -> int | None:
        """Integer of at least ``least``; None: not set."""
        text = self.options.get(name)
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= _LARGEST:
            raise BadOption(
                f"{name}: {text!r} is not an integer from {least} to {_LARGEST}",
                hint=f"use .option('{name}', {max(least, 10)})",
            )
        return value

    def flag(self, name: str, otherwise: bool) -> bool:
        """Boolean option."""
        return self.choice(name, ["true", "false"], str(otherwise).lower()) == "true"

    def choice(self, name: str, choices: list[str], otherwise: str) -> str:
        """One of several words, in lower case; ``otherwise`` if not set."""
        text = self.options.get(name)
        if text is None:
            return otherwise
        if text.strip().lower() not in choices:
            raise BadOption(
                f"{name}: invalid value {text!r}", hint=f"use one of {', '.join(choices)}"
            )
        return text.strip().lower()

    def policy(self, name: str, *choices: GapPolicy) -> GapPolicy:
        """One of several policies; the first is the default."""
        return GapPolicy(self.choice(name, [*choices], choices[0]))

    def time(self, name: str) -> datetime | None:
        """Timestamp, or milliseconds since 1970; UTC if it has no zone."""
        text = self.options.get(name)
        if text is None:
            return None
        try:
            if text.strip().isdecimal():
                return _EPOCH + timedelta(milliseconds=int(text))
            found = datetime.fromisoformat(text)
        except (ValueError, OverflowError):
            raise BadOption(
                f"{name}: {text!r} is not an ISO 8601 timestamp, nor milliseconds since 1970",
                hint=f"use .option('{name}', '2026-01-31T12:00:00+00:00')",
            ) from None
        return found if found.tzinfo else found.replace(tzinfo=UTC)
