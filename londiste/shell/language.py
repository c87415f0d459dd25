"""Grammar of the queue shell: one line per form, for parser, completion and help.

In a form, words stand for themselves, ``<kind:field>`` for a name or value, ``[...]`` for optional
parts (several in a row in any order).  ``<kind*>`` also takes ``*``; ``<kind,>`` takes several with
commas; ``<settings>`` is ``name = value, …`` and ``<options>`` the same where a value may be
missing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from londiste.errors import BadOption
from londiste.shell import lexer
from londiste.shell.lexer import Token
from londiste.shell.session import Result


@dataclass(frozen=True)
class Word:
    """A keyword, in any case."""

    text: str


@dataclass(frozen=True)
class Slot:
    """A name or a value.

    kind -- what it stands for, for the completion; field -- the argument of the function.
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


#: Takes the session, and the values by the names of their fields.
Runs = Callable[..., Result]


@dataclass(frozen=True)
class Form:
    """A form of a statement, its line of the help, and the function that runs it."""

    text: str
    help: str
    run: Runs
    elements: tuple[Element, ...]


class Forms(list[Form]):
    """Forms in the order of the help."""

    def statement(self, text: str, help: str) -> Callable[[Runs], Runs]:
        """Adds a form, which the function below runs."""

        def add(run: Runs) -> Runs:
            self.append(Form(text, help, run, _elements(text)))
            return run

        return add


#: First words of SQL, too: the second word makes a statement one of the shell.
_OF_SQL = {"create", "drop", "alter", "show"}


def parse(text: str, forms: Sequence[Form]) -> tuple[Runs, Values] | None:
    """The function and the values of a statement without its ``;``; None for SQL.

    Raises BadOption with the unreadable word and the expected ones.
    """
    found = lexer.tokens(text)
    if not any(_begins(found, form) for form in forms):
        return None
    expected: dict[int, list[Element]] = {}
    for form in forms:
        for end, values in _match(form.elements, found, 0, {}, expected):
            if end == len(found):
                return form.run, values
    raise _unreadable(found, expected, forms)


def expectations(
    found: Sequence[Token], forms: Sequence[Form]
) -> list[tuple[Element, Mapping[str, Any]]]:
    """The possible next elements after these tokens, with the values that were read before."""
    result: list[tuple[Element, Mapping[str, Any]]] = []
    for form in forms:
        expected: dict[int, list[Element]] = {}
        seen: dict[str, Any] = {}
        for _ in _match(form.elements, found, 0, {}, expected, seen):
            pass
        result += [(element, seen) for element in expected.get(len(found), [])]
    return result


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


def readable(text: str) -> str:
    """The text of a form as shown to users."""
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


def _begins(found: Sequence[Token], form: Form) -> bool:
    """Whether the first word of a form is here, and the second where the first is one of SQL."""
    for token, element in zip(found, form.elements, strict=False):
        if element != Word(token.text.lower()) or token.kind != "word":
            return False
        if token.text.lower() not in _OF_SQL:
            return True
    return False


# -- errors ---------------------------------------------------------------------------------------


def _unreadable(
    found: Sequence[Token], expected: dict[int, list[Element]], forms: Sequence[Form]
) -> BadOption:
    place = max(expected)
    candidates = expected[place]
    words = sorted({one.text for one in candidates if isinstance(one, Word)})
    slots = sorted({_described(one) for one in candidates if isinstance(one, Slot)})
    can_end = place > 0 and _could_end(found[:place], forms)
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


def _could_end(found: Sequence[Token], forms: Sequence[Form]) -> bool:
    return any(
        end == len(found) for form in forms for end, _ in _match(form.elements, found, 0, {}, {})
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
