r"""Selection of objects by names, patterns with * and ?, or all.

A backslash before ``*``, ``?``, ``-`` or a backslash makes it an ordinary character: ``a\*`` is the
table named ``a*``.  ``escaped`` writes a name so.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from londiste.db.names import TableName, argument
from londiste.db.names import escaped as escaped
from londiste.errors import BadOption, LondisteError, UnknownTable

if TYPE_CHECKING:
    from londiste.replication.model import ReplicatedTable

#: A name or pattern as users write it; or one object, whose name may contain * and ?.
Pattern = str | TableName


@dataclass(frozen=True)
class Selected:
    """chosen -- to be changed; already -- named, and in the wanted state before."""

    chosen: tuple[TableName, ...]
    already: tuple[TableName, ...] = ()


def select(
    patterns: Sequence[Pattern],
    candidates: Collection[TableName],
    done: Collection[TableName],
    unknown: Callable[[str], LondisteError],
    *,
    force: bool = False,
) -> Selected:
    """The candidates that match the patterns, each once, in the order of the patterns.

    A pattern without a dot means the schema public.  ``*`` is any text, ``?`` one character.
    done -- objects in the wanted state already.
    unknown -- creates the error for a pattern without a match.
    force -- a plain name without a match is chosen too.
    """
    chosen: dict[TableName, None] = {}
    already: dict[TableName, None] = {}
    for text in patterns:
        several = False
        if isinstance(text, str) and is_pattern(text):
            several = True
            match = _matcher(text)
            fresh = [name for name in candidates if match(str(name))]
            old = [name for name in done if match(str(name))]
        else:
            wanted = parsed(text)
            fresh = [wanted] if wanted in candidates else []
            old = [wanted] if wanted in done else []
        if not fresh and not old:
            if not force or several:
                raise unknown(str(text))
            fresh = [parsed(text)]
        chosen.update(dict.fromkeys(fresh))
        if not fresh:
            already.update(dict.fromkeys(old))
    return Selected(tuple(chosen), tuple(already))


def matches(name: TableName, patterns: Sequence[str]) -> bool:
    """Whether one of the names or patterns matches the object."""
    return any(_matcher(text)(str(name)) for text in patterns)


def settled(picked: Selected, candidates: Collection[TableName]) -> Selected:
    """``select`` for removal: a name without a match counts as done."""
    strange = tuple(name for name in picked.chosen if name not in candidates)
    chosen = tuple(name for name in picked.chosen if name in candidates)
    return Selected(chosen, picked.already + strange)


def parsed(text: Pattern) -> TableName:
    """The name that a pattern is, or consists of.  Raises BadOption."""
    # A TableName is a tuple, so no text.
    if isinstance(text, TableName):
        return text
    return TableName.parse("".join(char for char, _ in _characters(text)))


def table_meant(text: Pattern, known: Iterable[TableName], otherwise: str) -> str:
    """The hint for a name that is none of these: the nearest of them, else ``otherwise``.

    The same name in another schema is nearer than another name.
    """
    if not isinstance(text, TableName) and is_pattern(text):
        return otherwise
    wanted = parsed(text)
    names = sorted(known, key=lambda one: one.schema != wanted.schema)
    close = [one for one in names if one.name == wanted.name]
    lower = [one.name.lower() for one in names]
    for name in difflib.get_close_matches(wanted.name.lower(), lower, n=1):
        close += [one for one in names if one.name.lower() == name]
    return f"did you mean {argument(close[0])}?" if close else otherwise


def unknown_table(
    what: str,
    known: Iterable[TableName],
    *,
    detail: str = "nothing was changed",
    hint: str = "londiste tables",
) -> Callable[[str], UnknownTable]:
    """The errors of ``select`` for names that are not in ``known``.

    what -- what the tables of ``known`` are; hint -- for a name that resembles none of them.
    """
    return lambda text: UnknownTable(
        f"table {text} is not {what}", detail=detail, hint=table_meant(text, known, hint)
    )


def named(known: Sequence[ReplicatedTable], names: Collection[TableName]) -> list[ReplicatedTable]:
    """Pure: those of the replicated tables that have these names; without names all.

    Raises UnknownTable for the first name that none of them has.
    """
    there = {table.name for table in known}
    for name in names:
        if name not in there:
            raise UnknownTable(
                f"table {name} is not replicated here",
                hint=table_meant(str(name), (t.name for t in known), "londiste tables"),
            )
    return [table for table in known if not names or table.name in names]


def require_names(kind: str, patterns: Sequence[Pattern], every: bool) -> None:
    """Raises BadOption unless a command is given either names or --all."""
    if every == bool(patterns):
        raise BadOption(
            f"--all excludes {kind} names" if patterns else f"no {kind} given",
            hint=f"name {kind}s, or use --all",
        )


def is_pattern(text: str) -> bool:
    """Whether the text can match several objects."""
    return any(wild for _, wild in _characters(text))


def _characters(text: str) -> Iterator[tuple[str, bool]]:
    """The characters of a pattern, and whether each is a wildcard."""
    escape = False
    for char, following in zip(text, [*text[1:], ""], strict=True):
        if not escape and char == "\\" and following in ("\\", "*", "?", "-"):
            escape = True
            continue
        yield char, not escape and char in "*?"
        escape = False


def _matcher(pattern: str) -> Callable[[str], bool]:
    # The text before the first dot is the schema.
    qualified = str(TableName.parse(pattern))
    parts = (
        (".*" if char == "*" else ".") if wild else re.escape(char)
        for char, wild in _characters(qualified)
    )
    compiled = re.compile("".join(parts), re.DOTALL)
    return lambda name: compiled.fullmatch(name) is not None
