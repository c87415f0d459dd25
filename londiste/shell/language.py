"""Grammar of the queue shell: one line per form, for parser and completion.

In a form, words stand for themselves, ``<kind:field>`` for a name or value, ``[...]`` for optional
parts (several in a row in any order), ``(a|b)`` for a choice of words.  ``<kind*>``
also takes ``*``; ``<kind,>`` takes several with commas; ``<settings>`` is ``name = value, …`` and
``<options>`` the same where a value may be missing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from londiste.errors import BadOption
from londiste.shell import lexer
from londiste.shell import statements as s
from londiste.shell.lexer import Token
from londiste.shell.statements import Statement


@dataclass(frozen=True)
class Word:
    """A keyword, in any case."""

    text: str


@dataclass(frozen=True)
class Slot:
    """A name or a value.

    kind -- what it stands for, for the completion; field -- of the statement.
    """

    kind: str
    field: str
    star: bool = False
    many: bool = False


@dataclass(frozen=True)
class Maybe:
    """An optional part."""

    elements: tuple[Element, ...]


Element = Word | Slot | Maybe


@dataclass(frozen=True)
class Form:
    """A form of a statement, and the function that builds it from its values."""

    text: str
    build: Callable[..., Statement]
    help: str
    elements: tuple[Element, ...] = field(default=(), compare=False)


def _form(text: str, build: Callable[..., Statement], help: str) -> Form:
    return Form(text, build, help, _elements(text))


#: Options of ``londiste add table … with``.
TABLE_OPTIONS = (
    "skip_truncate",
    "tgflags",
    "expect_sync",
    "no_triggers",
    "backup",
    "skip",
    "when",
    "ev_type",
    "ev_data",
    "ev_extra1",
    "ev_extra2",
    "ev_extra3",
    "ev_extra4",
)

CONNECT_WORDS = ("dbname", "host", "port", "user", "service", "queue", "node")


@cache
def forms() -> tuple[Form, ...]:
    """All forms, in the order of the help."""
    return (
        _form(
            "connect <connection:parameters>",
            s.Connect,
            "connect to another database, queue or node",
        ),
        _form("install <component:component>", s.Install, "install or upgrade the SQL"),
        _form("create queue <new:queue>", s.CreateQueue, "create a queue"),
        _form("drop queue <queue:queue> [force]", s.DropQueue, "drop a queue with its events"),
        _form(
            "alter queue <queue*:queue> set <settings:settings>",
            s.AlterQueue,
            "set parameters of one queue or all",
        ),
        _form(
            "show queue [<queue*:queue>]", s.ShowQueue, "list queues, or show the parameters of one"
        ),
        _form(
            "show consumer [<consumer*:consumer>] [on <queue:queue>]", s.ShowConsumer, "positions"
        ),
        _form(
            "show node [<node*:node>] [on <queue:queue>]", s.ShowNode, "list nodes of the cascade"
        ),
        _form("show batch <batch:batch>", s.ShowBatch, "show a batch, by number or consumer"),
        _form("show table <table:table>", s.ShowTable, "show a replicated table"),
        _form("show sequence <sequence:sequence>", s.ShowSequence, "show a replicated sequence"),
        _form("show version", s.ShowVersion, "show versions of program, schemas and server"),
        _form("show help", s.ShowHelp, "this"),
        _form(
            "register consumer <new:consumer> [on <queue:queue>] [at <tick:tick>]"
            " [copy <consumer:copy>]",
            s.RegisterConsumer,
            "register or move a consumer",
        ),
        _form(
            "unregister consumer <consumer*:consumer> [from <queue:queue>]",
            s.UnregisterConsumer,
            "unregister a consumer and delete its position",
        ),
        _form(
            "register subconsumer <new:subconsumer> for <consumer:consumer> [on <queue:queue>]",
            s.RegisterSubconsumer,
            "register a cooperative consumer",
        ),
        _form(
            "unregister subconsumer <subconsumer*:subconsumer> for <consumer:consumer>"
            " [from <queue:queue>] [close [batch]]",
            s.UnregisterSubconsumer,
            "unregister a cooperative consumer, with its open batch",
        ),
        _form(
            "londiste add table <table,:tables> [with <options:options>]",
            s.AddTables,
            "replicate tables",
        ),
        _form("londiste add sequence <sequence,:sequences>", s.AddSequences, "replicate sequences"),
        _form("londiste remove table <table,:tables>", s.RemoveTables, "stop replicating tables"),
        _form(
            "londiste remove sequence <sequence,:sequences>",
            s.RemoveSequences,
            "stop replicating sequences",
        ),
        _form("londiste tables", s.ListTables, "list replicated tables and their states"),
        _form("londiste seqs", s.ListSequences, "list replicated sequences"),
        _form("londiste missing", s.ListMissing, "list tables that are not replicated"),
        _form("help", s.ShowHelp, "this"),
        _form("exit", s.Exit, "leave the shell; also quit, ^D"),
        _form("quit", s.Exit, "leave"),
    )


#: First words that are never SQL, and second words that make others ours.
_OURS = {"connect", "install", "register", "unregister", "londiste", "help", "exit", "quit"}
_OURS_WITH = {
    "create": {"queue"},
    "drop": {"queue"},
    "alter": {"queue"},
    "show": {"queue", "consumer", "node", "batch", "table", "sequence", "version", "help"},
}


def parse(text: str) -> Statement:
    """A statement, without its ``;``.

    Other text is SQL.  Raises BadOption with the unreadable word and the expected ones.
    """
    found = lexer.tokens(text)
    if not _is_ours(found):
        return s.Sql(text.strip())
    expected: dict[int, list[Element]] = {}
    for form in forms():
        for end, values in _match(form.elements, found, 0, {}, expected):
            if end == len(found):
                return form.build(**values)
    raise _unreadable(found, expected)


def expectations(found: Sequence[Token]) -> list[tuple[Element, Mapping[str, Any]]]:
    """The possible next elements after these tokens, with the values that were read before."""
    result: list[tuple[Element, Mapping[str, Any]]] = []
    for form in forms():
        expected: dict[int, list[Element]] = {}
        seen: dict[str, Any] = {}
        for _ in _match(form.elements, found, 0, {}, expected, seen):
            pass
        result += [(element, seen) for element in expected.get(len(found), [])]
    return result


def help_lines() -> list[tuple[str, str]]:
    """Every form as shown to users, and its purpose."""
    return [(_readable(form.text) + ";", form.help) for form in forms()] + [
        ("SQL …;", "anything else goes to the server")
    ]


# -- reading forms --------------------------------------------------------------------------------

_PIECE = re.compile(r"\[|\]|<([a-z]+)([*,]?):([a-z]+)>|[a-z]+")


def _elements(text: str) -> tuple[Element, ...]:
    stack: list[list[Element]] = [[]]
    for piece in _PIECE.finditer(text):
        if piece.group() == "[":
            stack.append([])
        elif piece.group() == "]":
            inner = tuple(stack.pop())
            stack[-1].append(Maybe(inner))
        elif piece.group(1):
            kind, sign, name = piece.groups()
            stack[-1].append(Slot(kind, name, sign == "*", sign == ","))
        else:
            stack[-1].append(Word(piece.group()))
    return tuple(stack[0])


def _readable(text: str) -> str:
    text = re.sub(r"<new:(\w+)>", lambda m: m[1].upper(), text)
    text = re.sub(r"<(\w+),:\w+>", lambda m: f"{m[1].upper()}, …", text)
    text = re.sub(r"<(\w+)\*:\w+>", lambda m: f"{m[1].upper()}|*", text)
    text = text.replace("<connection:parameters>", "dbname=… host=… queue=… node=…")
    text = text.replace("<settings:settings>", "PARAMETER = VALUE, …")
    text = text.replace("<component:component>", "pgq|londiste")
    text = text.replace("<options:options>", "skip_truncate, tgflags='…', when='…', …")
    return re.sub(r"<(\w+):\w+>", lambda m: m[1].upper(), text)


# -- matching -------------------------------------------------------------------------------------

Values = dict[str, Any]
Found = Iterator[tuple[int, Values]]


def _match(
    elements: Sequence[Element],
    found: Sequence[Token],
    at: int,
    values: Values,
    expected: dict[int, list[Element]],
    seen: dict[str, Any] | None = None,
) -> Found:
    """Every parse of the tokens from ``at`` on: its end, and the values.

    expected -- collects the possible elements at each position that was reached.
    seen -- collects the values of all parses.
    """
    if seen is not None:
        seen.update(values)
    if not elements:
        expected.setdefault(at, [])
        yield at, values
        return
    first, rest = elements[0], elements[1:]
    if isinstance(first, Maybe):
        # Several in a row come in any order, each once.
        group = [first]
        while rest and isinstance(rest[0], Maybe):
            group.append(rest[0])
            rest = rest[1:]
        for one in group:
            others = [other for other in group if other is not one]
            yield from _match([*one.elements, *others, *rest], found, at, values, expected, seen)
        yield from _match(rest, found, at, values, expected, seen)
        return
    if first not in expected.setdefault(at, []):
        expected[at].append(first)
    if at >= len(found):
        return
    if isinstance(first, Word):
        if found[at].kind == "word" and found[at].text.lower() == first.text:
            more = {**values, first.text: True} if first.text in {"force", "close"} else values
            yield from _match(rest, found, at + 1, more, expected, seen)
        return
    for end, value in _read(first, found, at, expected):
        yield from _match(rest, found, end, {**values, first.field: value}, expected, seen)


def _read(
    slot: Slot, found: Sequence[Token], at: int, expected: dict[int, list[Element]]
) -> Iterator[tuple[int, Any]]:
    if slot.kind in {"settings", "options", "connection"}:
        yield from _assignments(slot, found, at, expected)
        return
    if not _is_name(found[at], star=slot.star):
        return
    names = [found[at].text]
    at += 1
    while slot.many and at + 1 < len(found) and _sign(found[at], ","):
        if not _is_name(found[at + 1], star=False):
            return
        names.append(found[at + 1].text)
        at += 2
    if slot.many and at < len(found) and _sign(found[at], ","):
        expected.setdefault(at + 1, []).append(slot)
        return
    yield at, tuple(names) if slot.many else names[0]


def _assignments(
    slot: Slot, found: Sequence[Token], at: int, expected: dict[int, list[Element]]
) -> Iterator[tuple[int, dict[str, str | None]]]:
    values: dict[str, str | None] = {}
    while at < len(found) and found[at].kind == "word":
        name = found[at].text.lower()
        if name in values:
            raise BadOption(f"{name} is given twice", hint="give it once")
        at += 1
        if at < len(found) and _sign(found[at], "="):
            if at + 1 >= len(found):
                expected.setdefault(at + 1, []).append(Slot("value", name))
                return
            # Without quotes a value may be several words, up to the comma.
            parts = []
            at += 1
            while at < len(found) and found[at].kind != "sign":
                parts.append(found[at].text)
                at += 1
                if slot.kind == "connection":
                    break
            if not parts:
                return
            values[name] = " ".join(parts)
        elif slot.kind == "options":
            values[name] = None
        else:
            return
        if at < len(found) and _sign(found[at], ","):
            at += 1
            if slot not in expected.setdefault(at, []):
                expected[at].append(slot)
            if at >= len(found):
                return
            continue
        if slot.kind != "connection":
            break
        if slot not in expected.setdefault(at, []):
            expected[at].append(slot)
    if values:
        yield at, values


def _is_name(token: Token, *, star: bool) -> bool:
    if token.kind == "sign":
        return star and token.text == "*"
    return token.kind in {"word", "name", "text"} and token.closed and token.text != ""


def _sign(token: Token, text: str) -> bool:
    return token.kind == "sign" and token.text == text


def _is_ours(found: Sequence[Token]) -> bool:
    if not found or found[0].kind != "word":
        return False
    first = found[0].text.lower()
    if first in _OURS:
        return True
    second = found[1].text.lower() if len(found) > 1 and found[1].kind == "word" else ""
    return second in _OURS_WITH.get(first, set())


# -- errors ---------------------------------------------------------------------------------------


def _unreadable(found: Sequence[Token], expected: dict[int, list[Element]]) -> BadOption:
    place = max(expected)
    candidates = expected[place]
    words = sorted({one.text for one in candidates if isinstance(one, Word)})
    slots = sorted({_described(one) for one in candidates if isinstance(one, Slot)})
    can_end = place > 0 and _could_end(found[:place])
    wanted = [*slots, *words, *(["the end"] if can_end else [])]
    if place >= len(found):
        said = " ".join(token.text for token in found)
        return BadOption(f"unfinished: {said}", hint=f"expected next: {_either(wanted)}")
    word = found[place].text
    close = difflib.get_close_matches(word.lower(), words, n=1)
    before = " ".join(token.text for token in found[:place])
    return BadOption(
        f"cannot read {word!r}" + (f" after: {before}" if before else ""),
        hint=f"did you mean {close[0]}?" if close else f"expected {_either(wanted)}",
    )


def _could_end(found: Sequence[Token]) -> bool:
    return any(
        end == len(found) for form in forms() for end, _ in _match(form.elements, found, 0, {}, {})
    )


def _described(slot: Slot) -> str:
    kinds = {
        "new": "a name",
        "settings": "PARAMETER = VALUE",
        "options": "an option",
        "connection": "dbname=, host=, service=, queue= or node=",
        "value": "a value",
        "component": "pgq or londiste",
        "batch": "a batch number or a consumer",
        "tick": "a tick",
    }
    text = kinds.get(slot.kind, f"a {slot.kind}")
    return f"{text} or *" if slot.star else text


def _either(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words) or "nothing more"
    return f"{', '.join(words[:-1])} or {words[-1]}"
