"""Form of a log line: time with zone, level, program and process id, node, queue, message.

``2026-03-01 12:00:00.123+01:00 WARNING worker[4711] node=reports queue=shop: the message``

Every line of every process has it, also each line of a traceback, so that one regular expression
(``LINE``) reads a log.  A node or queue that is unknown, or has no meaning, is ``-``.
"""

from __future__ import annotations

import json
import logging
import re
from datetime import datetime
from typing import Any

from londiste.daemon import logcontext

_NAME = r'"(?:[^"\\]|\\.)*"|[^\s"]+?'

#: A line, with groups time, level, program, pid, node, queue and message.
LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d) (?P<level>[A-Z]+)"
    rf" (?P<program>[\w.-]+)\[(?P<pid>\d+)\] node=(?P<node>{_NAME}) queue=(?P<queue>{_NAME}):"
    r" (?P<message>.*)"
)

#: What a line of JSON begins with (``logjson.Json``).
_JSON = '{"time": '

#: Names that need no quotes.
_PLAIN = re.compile(r'[^\s":]+')


class LogLine(logging.Formatter):
    """One line per message, and per line of a traceback; control characters as ``\\\\x1b``.

    detailed -- the message begins with the logger's name, and the context follows it.
    """

    def __init__(self, *args: Any, detailed: bool = False, **given: Any) -> None:
        # The arguments of logging.Formatter are what a configuration file hands over.
        super().__init__(*args, **given)
        self.detailed = detailed

    def format(self, record: logging.LogRecord) -> str:
        message = message_of(record)
        if self.detailed:
            message = f"{record.name}: {message}{logcontext.suffix(record, leading=False)}"
        texts = [message]
        if record.exc_info:
            texts += self.formatException(record.exc_info).splitlines()
        elif record.exc_text:
            texts += record.exc_text.splitlines()
        if record.stack_info:
            texts += self.formatStack(record.stack_info).splitlines()
        head = _head(record)
        return "\n".join(f"{head} {escaped(text)}" for text in texts)


def _head(record: logging.LogRecord) -> str:
    when = datetime.fromtimestamp(record.created).astimezone()
    program, node, queue = (getattr(record, name, None) for name in logcontext.LEADING)
    return (
        f"{when.isoformat(' ', 'milliseconds')} {record.levelname}"
        f" {program or 'londiste'}[{record.process}] node={_name(node)} queue={_name(queue)}:"
    )


def _name(value: Any) -> str:
    if not value:
        return "-"
    text = escaped(str(value))
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def message_of(record: logging.LogRecord) -> str:
    """The message with its arguments; a wrong call of any library does not cost the line."""
    try:
        return record.getMessage()
    except Exception as error:
        return f"{record.msg} (not formatted: {error})"


def has_form(text: str) -> bool:
    """Whether a line of another process is a line of its log already, as text or JSON."""
    return text.startswith(_JSON) or LINE.fullmatch(text) is not None


def escaped(text: str) -> str:
    """The text with every unprintable character escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
