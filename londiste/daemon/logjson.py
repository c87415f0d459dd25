"""JSON log lines, for programs that read logs."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from londiste.daemon import logcontext
from londiste.daemon.logline import message_of

#: More than this many characters of one text are cut off.
LIMIT = 100_000

#: Keys of every line, with their descriptions.
ALWAYS: dict[str, str] = {
    "time": "Time of the message: ISO 8601 with milliseconds and zone.",
    "level": "DEBUG, INFO, WARNING, ERROR or CRITICAL.",
    "logger": "Python module that logged it.",
    "message": "The message, one line.",
    "pid": "Process id.",
    "host": "Name of the host.",
    "program": "Command of the process: worker, ticker, copy, run, notify, …",
    "node": "Name of the node.",
    "job": "Job name of the settings; ticker for the ticker.",
    "queue": "Name of the queue.",
    "consumer": "Name of the consumer.",
    "batch": "Id of the batch.",
    "tick": "Id of the last tick of the batch.",
}
#: Keys of some lines, with their descriptions.
SOMETIMES: dict[str, str] = {
    "error": "Class of the error.",
    "sqlstate": "SQLSTATE of PostgreSQL.",
    "detail": "Facts about the error.",
    "hint": "What to do about it.",
    "exception": "Traceback of an unexpected error.",
    "stack": "Stack of the thread, where it was requested.",
    "statistics": "Object with the numbers of a line of statistics.",
    "table": "Table that the work is about.",
    "database": "Database that the ticker serves.",
    "operation": "Operation of the ticker's maintenance.",
    "daemon": "Daemon of londiste run that wrote a line without this form.",
    "cut": "true: a text was truncated.",
}

#: What every record of logging has; the rest came with ``extra=`` or was bound.
_OF_LOGGING = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class Json(logging.Formatter):
    """One object per line, in ASCII: nothing in a value can end the line or move a cursor.

    The keys of ``ALWAYS`` are in every line, null without a value; those of ``SOMETIMES``, and
    whatever was given as ``extra=``, when there are any.

    limit -- maximum characters of a text; ``"cut": true`` marks a shortened one.
    """

    def __init__(self, *args: Any, limit: int = LIMIT, **given: Any) -> None:
        # The arguments of logging.Formatter are what a configuration file hands over.
        super().__init__(*args, **given)
        self.limit = limit
        self._host = socket.gethostname()

    def format(self, record: logging.LogRecord) -> str:
        return encoded(self.fields(record), self.limit)

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """The fields of a record, by name."""
        when = datetime.fromtimestamp(record.created).astimezone()
        fields: dict[str, Any] = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": message_of(record),
            "pid": record.process,
            "host": self._host,
            **{name: getattr(record, name, None) for name in logcontext.FIELDS},
        }
        error = getattr(record, "error", None)
        if error is None and record.exc_info:
            error = record.exc_info[1]
        if isinstance(error, BaseException):
            fields.update(_of_error(error))
        elif error is not None:
            fields["error"] = error
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            fields["exception"] = record.exc_text
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        for name, value in record.__dict__.items():
            if name not in _OF_LOGGING and name not in fields and name != "error":
                fields[name] = value
        return fields


def encoded(fields: Mapping[str, Any], limit: int = LIMIT, size: int | None = None) -> str:
    """The object as one line of ASCII; texts are cut to ``limit``, and then to fit into ``size``.

    Never raises for a value that JSON does not have: it is written as its text.
    """
    while True:
        cut: list[bool] = []
        plain = {name: _plain(value, limit, cut) for name, value in fields.items()}
        if cut:
            plain["cut"] = True
        line = json.dumps(plain)
        if size is None or len(line) <= size:
            return line
        if limit == 0:
            # So many fields that not even their names fit.
            return json.dumps({"level": plain.get("level"), "cut": True})
        limit //= 2


def _plain(value: Any, limit: int, cut: list[bool]) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, Mapping):
        return {_plain(str(k), limit, cut): _plain(v, limit, cut) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v, limit, cut) for v in value]
    # Half of a pair of surrogates is no text for most readers of JSON.
    text = str(value).encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text) > limit:
        cut.append(True)
        return text[:limit]
    return text


def _of_error(error: BaseException) -> dict[str, Any]:
    fields: dict[str, Any] = {"error": type(error).__name__}
    for name in ("detail", "hint"):
        if getattr(error, name, None):
            fields[name] = getattr(error, name)
    for each in (error, error.__cause__):
        state = getattr(each, "sqlstate", None)
        if state:
            fields["sqlstate"] = state
            break
    return fields
