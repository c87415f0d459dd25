"""Registry of handlers: built-in ones, and those of modules in the settings.

A table's handler is stored as ``name`` or ``name(option=value&…)``, url-encoded, in its attribute
``handler``.  Every reader validates it: a worker that does not know a handler, or one of its
options, stops.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, get_type_hints
from urllib.parse import quote, unquote_plus

from londiste.errors import BadOption, UsageError
from londiste.handlers.applyfn import ApplyFunction, MultiMaster
from londiste.handlers.base import Handler
from londiste.handlers.dispatch import Dispatch
from londiste.handlers.dispatch_presets import PRESETS, preset
from londiste.handlers.noop import Nop, QueueTable, Virtual
from londiste.handlers.obfuscate import Obfuscate
from londiste.handlers.qsplitter import QueueSplitter
from londiste.handlers.shard import Shard
from londiste.handlers.table import Bulk, Table

_OWN: tuple[type[Handler], ...] = (
    Table,
    Nop,
    Virtual,
    QueueTable,
    QueueSplitter,
    ApplyFunction,
    MultiMaster,
    Shard,
    Bulk,
    Obfuscate,
    Dispatch,
)
_known: dict[str, type[Handler]] = {kind.NAME: kind for kind in _OWN}
_known |= {alias: kind for kind in _OWN for alias in kind.ALIASES}

#: What a module of handlers lists them in.
LIST = "__londiste_handlers__"

#: Modules that were written for other programs and mean what is here anyhow.
_OTHERS = "londiste.handlers."


#: Where each of ``OF_LONDISTE_3`` has its line.
_PAGE = "from Londiste 3: docs/howto/coming-from-londiste.md#handler-arguments"


#: What any handler could have there.
_EVERYWHERE = {"encoding": "leave it out: texts come in the encoding of this node's database"}


@dataclass(frozen=True)
class HandlerOption:
    """An option of a handler.

    takes -- kind of its value.
    default -- None: the option is required.
    """

    name: str
    takes: str
    default: str | None
    help: str


def load(modules: Iterable[str]) -> None:
    """Registers the handlers of these modules.  Raises UsageError for an invalid module."""
    for name in modules:
        if name.startswith(_OTHERS) or name == _OTHERS[:-1]:
            continue
        try:
            module = importlib.import_module(name)
        except Exception as error:
            raise UsageError(
                f"module {name} of handler_modules cannot be loaded: {error}",
                hint="correct handler_modules, or install the module on this host too",
            ) from error
        found = getattr(module, LIST, None)
        if not isinstance(found, list | tuple) or not all(map(_is_handler, found)):
            raise UsageError(
                f"module {name} of handler_modules defines no handlers",
                hint=f"define {LIST} = [...] in it, a list of subclasses of"
                " londiste.handlers.base.Handler",
            )
        for kind in found:
            _register(kind, name)
    make.cache_clear()


def configure(settings: Mapping[str, str]) -> None:
    """Passes the process settings that concern them to all handlers."""
    for kind in set(_known.values()):
        kind.configure(settings)
    make.cache_clear()


def _is_handler(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Handler) and dataclasses.is_dataclass(kind)


def _register(kind: type[Handler], module: str) -> None:
    for name in (kind.NAME, *kind.ALIASES):
        if not name or "(" in name:
            raise UsageError(
                f"handler {kind.__name__} of module {module} has no name",
                hint="set NAME = 'a name' in the class",
            )
        present = _known.get(name, kind)
        if present in _OWN or name in PRESETS or present.__qualname__ != kind.__qualname__:
            raise UsageError(
                f"handler {name} of module {module}: another handler has this name",
                hint="set another NAME in its class; see londiste show-handlers",
            )
        _known[name] = kind


def names() -> list[str]:
    """The names of all handlers, without aliases."""
    return sorted({kind.NAME for kind in _known.values()} | PRESETS.keys())


def find(name: str) -> type[Handler]:
    """The class of that name or alias.  Raises BadOption."""
    kind = preset(name) if name in PRESETS else _known.get(name)
    if kind is None:
        near = difflib.get_close_matches(name, [*_known, *PRESETS], 1)
        raise BadOption(
            f"unknown handler {name}",
            detail=f"known handlers: {', '.join(names())}",
            hint=(f"use {near[0]}, or " if near else "")
            + "add modules with your own handlers to the setting handler_modules",
        )
    return kind


def options(kind: type[Handler]) -> list[HandlerOption]:
    """The options of a handler, in the order of its fields."""
    hints = get_type_hints(kind)
    return [
        HandlerOption(
            field.name,
            _kind(hints[field.name]),
            None if _required(field) else _shown(_default(field)),
            str(field.metadata.get("help", "")),
        )
        for field in dataclasses.fields(kind)
    ]


def parse(name: str, arguments: Sequence[str]) -> str:
    """The stored form of a handler with arguments ``key=value``; '' for the default.

    Raises BadOption for invalid ones.
    """
    pairs: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals:
            raise BadOption(
                f"--handler-arg {argument} has no value", hint="use --handler-arg option=value"
            )
        if key in pairs:
            raise BadOption(f"--handler-arg {key}: duplicate option", hint="remove one of them")
        pairs[key] = value
    kind = find(name or Table.NAME)
    handler = _make(kind, pairs)
    handler.wants()
    if kind is Table and not pairs:
        return ""
    pairs = dict(kind.complete(pairs))
    inside = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in pairs.items())
    return f"{kind.NAME}({inside})" if inside else kind.NAME


@functools.lru_cache(maxsize=4096)
def make(stored: str) -> Handler:
    """The handler of a stored form; '' is the default.  Raises BadOption."""
    name, pairs = split(stored)
    return _make(find(name or Table.NAME), pairs)


def split(stored: str) -> tuple[str, dict[str, str]]:
    """Name and options of a stored form.  Raises BadOption."""
    name, bracket, rest = stored.partition("(")
    pairs: dict[str, str] = {}
    if bracket:
        if not rest.endswith(")"):
            raise BadOption(
                f"handler {stored}: missing )",
                hint="londiste change-handler TABLE --handler NAME",
            )
        items = (item.partition("=") for item in rest[:-1].split("&") if item)
        pairs = {unquote_plus(key): unquote_plus(value) for key, _, value in items}
    return name, pairs


def _make(kind: type[Handler], pairs: Mapping[str, str]) -> Handler:
    hints = get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    before = kind.OF_LONDISTE_3
    for key in pairs:
        if key not in fields:
            some = ", ".join(fields) or "none"
            instead = before.get(key) or _EVERYWHERE.get(key) or before.get("*", "")
            raise BadOption(
                f"handler {kind.NAME} has no option {key}",
                detail=f"options: {some}" + (f"; {_PAGE}" if instead else ""),
                hint=instead or f"londiste show-handlers {kind.NAME}",
            )
    for name, field in fields.items():
        if _required(field) and name not in pairs:
            instead = before.get(name, "")
            raise BadOption(
                f"handler {kind.NAME}: option {name} is missing",
                detail=str(field.metadata.get("help", "")) + (f"; {_PAGE}" if instead else ""),
                hint=instead or f"--handler {kind.NAME} --handler-arg {name}=…",
            )
    values = {key: _value(kind, key, hints[key], text) for key, text in pairs.items()}
    return kind(**values)


def _value(kind: type[Handler], name: str, hint: Any, text: str) -> object:
    """The value of an option, of its type."""
    if hint is bool:
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
    elif hint is int:
        try:
            return int(text)
        except ValueError:
            pass
    elif isinstance(hint, type) and issubclass(hint, StrEnum):
        if text in list(hint):
            return hint(text)
    elif hint == tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    else:
        return text
    raise BadOption(
        f"--handler-arg {name}={text}: not {_kind(hint)}",
        hint=f"londiste show-handlers {kind.NAME}",
    )


_TRUE, _FALSE = {"1", "true", "yes", "on", "t"}, {"0", "false", "no", "off", "f", ""}


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _kind(hint: Any) -> str:
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return "one of " + ", ".join(hint)
    words = {bool: "0 or 1", int: "a number", tuple[str, ...]: "a list a,b,…"}
    return words.get(hint, "a text")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
