"""Rules of a table from its attributes: handler, row filter, columns, conflict policy.

    handler         name(option=value&…)
    where           SQL condition, as it was given
    columns         a,b: only these
    skip_columns    a,b: all but these
    on_error        keep, overwrite or log: conflict policy

Names in the lists are url-encoded, so that they may contain commas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote

from londiste.errors import BadOption
from londiste.handlers import registry
from londiste.handlers.base import ALL, TableRules

HANDLER, WHERE, COLUMNS, SKIP_COLUMNS = "handler", "where", "columns", "skip_columns"
ON_ERROR = "on_error"

#: What can become of an event that does not fit the rows here.
POLICIES = ("halt", "keep", "overwrite", "log")

#: Conflict resolutions, as commands take and print them, and the policies that are stored.
RESOLUTIONS = {
    "error": "halt",
    "keep_local": "keep",
    "apply_remote": "overwrite",
    "skip_and_log": "log",
}


def resolution(policy: str) -> str:
    """The conflict resolution that a stored policy stands for."""
    return next((name for name, stored in RESOLUTIONS.items() if stored == policy), policy)


@dataclass(frozen=True)
class HandlerAttrs:
    """Handler and filters given to a command.

    handler -- in its stored form, '' for the default.
    """

    handler: str = ""
    where: str = ""
    columns: tuple[str, ...] = ()
    skip_columns: tuple[str, ...] = ()
    on_error: str = ""

    @staticmethod
    def of(attrs: Mapping[str, str]) -> HandlerAttrs:
        """Those of a table with these attributes."""
        return HandlerAttrs(
            attrs.get(HANDLER, ""),
            attrs.get(WHERE, ""),
            tuple(_split(attrs.get(COLUMNS, ""))),
            tuple(_split(attrs.get(SKIP_COLUMNS, ""))),
            attrs.get(ON_ERROR, ""),
        )

    def attrs(self) -> dict[str, str]:
        """The attributes that say it."""
        pairs = {
            HANDLER: self.handler,
            WHERE: self.where,
            COLUMNS: _joined(self.columns),
            SKIP_COLUMNS: _joined(self.skip_columns),
            ON_ERROR: "" if self.on_error == "halt" else self.on_error,
        }
        return {key: value for key, value in pairs.items() if value}


def wants(attrs: Mapping[str, str]) -> TableRules:
    """The rules of a table with these attributes.

    Raises BadOption for a handler that this process does not know, or invalid options.
    """
    return _with_choice(registry.make(attrs.get(HANDLER, "")).wants(), attrs)


def holds(attrs: Mapping[str, str]) -> TableRules:
    """The rules of a table of another node, whose keys are unknown here.  Raises BadOption."""
    return _with_choice(registry.make(attrs.get(HANDLER, "")).holds(), attrs)


def unlike(theirs: TableRules, mine: TableRules = ALL) -> str:
    """Pure: why rows of a branch are not those of the events that it forwards; '' where they are.

    theirs -- the rules of the branch.  mine -- those of the node that copies.
    """
    if not theirs.stored:
        return "it stores no rows"
    if theirs.ignore_truncate and not mine.ignore_truncate:
        return "it keeps rows after a TRUNCATE"
    if theirs.events is None:
        return ""
    same = replace(theirs, ignore_truncate=False).whole and not theirs.renamed
    return theirs.incomparable or ("" if same else "it excludes columns or rows")


def condition(attrs: Mapping[str, str]) -> str:
    """The row filter of a table of this or another node, '' for none.

    Of a handler that this process does not know, only ``--where`` is found.
    """
    try:
        return holds(attrs).where
    except BadOption:
        return attrs.get(WHERE, "")


def _with_choice(found: TableRules, attrs: Mapping[str, str]) -> TableRules:
    where = attrs.get(WHERE, "")
    if found.events is not None and (where or COLUMNS in attrs or SKIP_COLUMNS in attrs):
        raise BadOption(
            f"handler {attrs[HANDLER].partition('(')[0]} excludes --where, --columns excludes"
            " --skip-columns",
            hint="filter the events in the handler's function or queue",
        )
    if where:
        found = replace(found, where=both(found.where, where), text_of="")
    if COLUMNS in attrs:
        mine = frozenset(_split(attrs[COLUMNS]))
        found = replace(found, columns=mine if found.columns is None else mine & found.columns)
    if SKIP_COLUMNS in attrs:
        skipped = found.skip_columns | frozenset(_split(attrs[SKIP_COLUMNS]))
        found = replace(found, skip_columns=skipped)
    policy = attrs.get(ON_ERROR, "halt")
    if policy not in POLICIES:
        raise BadOption(
            f"on_error={policy}: unknown policy",
            hint=f"use one of {', '.join(POLICIES)}",
        )
    return found if policy == "halt" else replace(found, on_error=policy)


def with_policy(attrs: Mapping[str, str], policy: str) -> dict[str, str]:
    """The attributes with another policy; halt is the default."""
    rest = {key: value for key, value in attrs.items() if key != ON_ERROR}
    return rest if policy == "halt" else {**rest, ON_ERROR: policy}


def changes(where: str | None, columns: str | None, skip_columns: str | None) -> dict[str, str]:
    """The attributes of another filter, from options; '' removes one, None keeps it."""
    found = {} if where is None else {WHERE: where.strip()}
    for key, text in ((COLUMNS, columns), (SKIP_COLUMNS, skip_columns)):
        if text is None:
            continue
        names = [name.strip() for name in text.split(",")] if text.strip() else []
        if not all(names):
            raise BadOption(
                f"--{key.replace('_', '-')} {text}: a name is missing", hint="write a list: a,b"
            )
        found[key] = _joined(names)
    if found.get(COLUMNS) and found.get(SKIP_COLUMNS):
        raise BadOption("--columns excludes --skip-columns", hint="use one of them")
    return found


def both(one: str, other: str) -> str:
    """The conjunction of two conditions."""
    return f"({one}) and ({other})" if one and other else one or other


def _joined(names: Iterable[str]) -> str:
    return ",".join(quote(name, safe="") for name in names)


def _split(text: str) -> list[str]:
    return [unquote(name) for name in text.split(",") if name]
