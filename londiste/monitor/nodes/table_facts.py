"""Facts about a table of a node, and which of its columns should be as on the provider."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from londiste.handlers import condition
from londiste.handlers.base import ALL, TableRules
from londiste.replication.commands.merged_tables import TableKey


@dataclass(frozen=True)
class TableFacts:
    """A table that a node knows: whether it replicates it, its state, columns and types.

    error -- what blocks its copy.
    whole -- False: a filter excludes rows or columns.
    copy_below -- it was changed, and the nodes below have yet to copy it again.
    named -- columns of the source that its rules name.
    rules -- of a table whose rows are stored; None where they are not known.
    bases -- the types below domains, without their modifiers.
    keys -- its keys, unique and exclusion constraints.
    dest -- its quoted name on the node.
    """

    local: bool
    state: str | None = None
    error: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    whole: bool = True
    copy_below: bool = False
    named: frozenset[str] = frozenset()
    rules: TableRules | None = None
    bases: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[TableKey, ...] = ()
    dest: str = ""


_MODIFIER = re.compile(r"\(.*?\)")


def compared(ours: TableFacts, theirs: TableFacts, reported: Sequence[str]) -> dict[str, str]:
    """The columns of the provider that should be here with the same types.

    reported -- columns that have a finding of their own.
    """
    if ours.whole:
        return dict(theirs.columns)
    rules = ours.rules
    if rules is None or rules.events is not None:
        return {}
    held = ALL if theirs.rules is None else theirs.rules
    other = rules.changed.union((name for name, _ in rules.renamed), reported)
    return {
        name: kind
        for name, kind in theirs.columns.items()
        if rules.keeps(name) and held.keeps(name) and name not in other
    }


def misread_columns(ours: TableFacts, theirs: TableFacts) -> list[str]:
    """Columns whose values the row filter reads as another type than the copy does."""
    where = "" if ours.rules is None else ours.rules.where
    found = []
    for name in condition.may_read(where, ours.columns) if where else ():
        types = [side.columns.get(name, "") for side in (ours, theirs)]
        if any(name in side.bases for side in (ours, theirs)):
            types = [
                side.bases.get(name) or _MODIFIER.sub("", kind)
                for side, kind in zip((ours, theirs), types, strict=True)
            ]
        if types[1] and not condition.means_the_same(*types):
            found.append(name)
    return found


def unchecked_keys(ours: TableFacts, theirs: TableFacts) -> list[TableKey]:
    """Deferrable keys of a table with one source that no key of the source implies."""
    renamed = {} if ours.rules is None else dict(ours.rules.renamed)
    above = [
        replace(key, columns=frozenset(renamed.get(name, name) for name in key.columns))
        for key in theirs.keys
    ]
    return [
        key
        for key in ours.keys
        if key.deferrable and not key.shared and not any(key.implied_by(one) for one in above)
    ]
