"""Logging configuration from a file: TOML or JSON (``dictConfig``), INI (``fileConfig``).

Whatever handlers the file names, their records have the fields of ``logcontext``.
"""

from __future__ import annotations

import configparser
import json
import logging
import logging.config
import re
import socket
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from londiste.configfile import refuse_readable_password
from londiste.daemon import logcontext
from londiste.errors import BadOption

#: A file as it was read.
Source: TypeAlias = dict[str, Any] | configparser.ConfigParser

#: Classes that logging files of earlier versions name, and ours in their place.
_SUCCESSORS = {
    "EasyRotatingFileHandler": "londiste.daemon.loghandlers.RotatingFile",
    "SysLogHandler": "londiste.daemon.loghandlers.Syslog",
    "SysLogHostnameHandler": "londiste.daemon.loghandlers.Syslog",
    "UdpLogServerHandler": "londiste.daemon.loghandlers.Udp",
    "LogDBHandler": "londiste.daemon.logdatabase.Database",
}
_OLD = re.compile(r"\b(?:skytools\.)?skylog\.(\w+)")


def read(path: Path, job: str = "") -> Source:
    """The file, with ``%(job_name)s`` and ``%(host_name)s`` filled in.

    Raises BadOption, naming the file, when it cannot be read or parsed.
    """
    path = path.expanduser()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadOption(
            f"log_config {path}: no such file", hint="correct the setting log_config"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(
            f"log_config {path}: cannot be read: {error}",
            hint="make the file readable for this user",
        ) from None
    refuse_readable_password(path, "the file", text, f"log_config {path}")
    text = _filled(text, job)
    try:
        if path.suffix in {".ini", ".cfg", ".conf"}:
            parser = configparser.ConfigParser(interpolation=None)
            parser.read_string(_renewed(text))
            return parser
        document = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (configparser.Error, ValueError) as error:
        form = {".json": "JSON", ".ini": "an INI file"}.get(path.suffix, "TOML")
        first = " ".join(str(error).split())
        raise BadOption(
            f"log_config {path}: not {form}: {first}", hint="correct the line it names"
        ) from None
    if not isinstance(document, dict):
        raise BadOption(
            f"log_config {path}: not an object", hint="see the examples in docs/howto/logging.md"
        )
    return document


def apply(source: Source, path: Path) -> bool:
    """Sets up logging; True if the file sets a level of the root logger.

    Raises BadOption when a class, a reference or a value in it is wrong; handlers may be half
    set up then.
    """
    try:
        if isinstance(source, configparser.ConfigParser):
            logging.config.fileConfig(source, disable_existing_loggers=False)
            rooted = True
        else:
            config: dict[str, Any] = {"version": 1, "disable_existing_loggers": False, **source}
            logging.config.dictConfig(config)
            rooted = "level" in config.get("root", {})
    except Exception as error:
        raise BadOption(
            f"log_config {path}: {_said(error)}",
            hint="correct it; see docs/howto/logging.md",
        ) from None
    bind()
    return rooted


def bind() -> None:
    """Adds the fields of the context to the records of every handler."""
    for handler in handlers():
        if not any(isinstance(one, logcontext.Fields) for one in handler.filters):
            # In front: filters of the user may look at the fields.
            handler.filters.insert(0, logcontext.Fields())


def handlers() -> Iterator[logging.Handler]:
    """The handlers of all loggers."""
    for logger in (logging.getLogger(), *logging.Logger.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            yield from logger.handlers


def clear(names: set[str]) -> None:
    """Removes handlers and levels from these loggers, which the new file does not name."""
    for name in names:
        logger = logging.getLogger(name)
        for handler in logger.handlers[:]:
            logger.removeHandler(handler)
            handler.close()
        logger.setLevel(logging.NOTSET)
        logger.propagate = True
        logger.disabled = False


def loggers(source: Source) -> set[str]:
    """The loggers that a file names, except the root."""
    if isinstance(source, configparser.ConfigParser):
        # A parser is a Mapping as well; its get() is another.
        return {
            source[section].get("qualname", "")
            for section in source.sections()
            if section.startswith("logger_")
        } - {"", "root"}
    named = source.get("loggers", {})
    return set(named) - {"", "root"} if isinstance(named, dict) else set()


def _filled(text: str, job: str) -> str:
    # In an INI file arguments are Python; a name must not end its string.
    for name, value in (
        ("job_name", job or "londiste"),
        ("service_name", job or "londiste"),
        ("host_name", socket.gethostname()),
    ):
        text = text.replace(f"%({name})s", re.sub(r"[^\w.+@-]", "_", value))
    return text


def _renewed(text: str) -> str:
    return _OLD.sub(lambda match: _SUCCESSORS.get(match.group(1), match.group()), text)


def _said(error: BaseException) -> str:
    """An error with its causes, which logging hides behind a general message."""
    texts: list[str] = []
    seen: BaseException | None = error
    while seen is not None:
        text = " ".join(str(seen).split())
        if not isinstance(seen, ValueError | OSError):
            text = f"{type(seen).__name__}: {text}"
        if text and text not in texts:
            texts.append(text)
        seen = seen.__cause__ or seen.__context__
    return ": ".join(texts[:3])
