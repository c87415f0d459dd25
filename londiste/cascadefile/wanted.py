"""Tables and rules that each node should have, from the file of a cascade; pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from londiste.db.names import TableName
from londiste.errors import BadOption
from londiste.handlers import registry, table_rules
from londiste.handlers.table_rules import HandlerAttrs
from londiste.replication.patterns import is_pattern, matches, parsed, table_meant
from londiste.settings.cascade_file import CascadeFile, NodeSection, line
from londiste.settings.cascade_keys import TablesSection

#: Attributes of a table that its rule in the file defines.
RULE_ATTRS = (
    table_rules.HANDLER,
    table_rules.WHERE,
    table_rules.COLUMNS,
    table_rules.SKIP_COLUMNS,
)
_LISTS = (table_rules.COLUMNS, table_rules.SKIP_COLUMNS)


@dataclass(frozen=True)
class Rule:
    """Handler and filters of a table as stored attributes, and its conflict policy."""

    attrs: tuple[tuple[str, str], ...] = ()
    policy: str = "halt"

    @staticmethod
    def of(attrs: Mapping[str, str]) -> Rule:
        """The rule of a table with these stored attributes; lists of columns are sorted."""
        pairs = {key: attrs[key] for key in RULE_ATTRS if attrs.get(key)}
        for key in _LISTS:
            if key in pairs:
                pairs[key] = ",".join(sorted(pairs[key].split(",")))
        return Rule(tuple(sorted(pairs.items())), attrs.get(table_rules.ON_ERROR) or "halt")

    def exposes_more_than(self, other: Rule) -> bool:
        """Whether it may give a node rows, columns or values that the other one withholds."""
        new, old = dict(self.attrs), dict(other.attrs)
        if not old.keys() <= new.keys():
            return True
        for key in old:
            before, after = set(old[key].split(",")), set(new[key].split(","))
            if key == table_rules.COLUMNS and after - before:
                return True
            if key == table_rules.SKIP_COLUMNS and before - after:
                return True
            if key == table_rules.HANDLER and _handler(old[key]) != _handler(new[key]):
                return True
        return False


@dataclass(frozen=True)
class WantedTables:
    """What the file selects.

    nodes -- tables with their rules by node, in the order of the root's tables.
    sequences -- besides those of columns, by node; None if the file does not manage them.
    """

    nodes: Mapping[str, Mapping[TableName, Rule]] = field(default_factory=dict)
    sequences: Mapping[str, Sequence[TableName]] | None = None


def wanted(
    file: CascadeFile,
    existing: Mapping[TableName, bool],
    sequences: Mapping[TableName, Collection[TableName]] = MappingProxyType({}),
) -> WantedTables | None:
    """The tables of each node; None if the file does not manage tables.

    existing -- tables of the root's database; the value: it is a partition of another one.
    sequences -- of the root's database, with the tables whose columns use them.
    Raises BadOption for a named table or sequence that does not exist, or a rule that is wrong.
    """
    if file.tables is None:
        return None
    _refuse_unknown(file, existing)
    found: dict[str, dict[TableName, Rule]] = {}
    for node in file.nodes.values():
        if node.provider is None:
            names = _of_root(file.tables, node, existing)
        else:
            names = _kept(list(found[node.provider]), node.tables)
        found[node.name] = {name: _rule(file.tables, node, name) for name in names}
    return WantedTables(found, _sequences(file, found[file.root.name], sequences))


def _sequences(
    file: CascadeFile,
    tables: Collection[TableName],
    existing: Mapping[TableName, Collection[TableName]],
) -> dict[str, list[TableName]] | None:
    """The sequences of each node besides those of the columns of the root's tables."""
    section = file.tables
    if section is None or section.sequences is None:
        return None
    for text in section.sequences:
        if not is_pattern(text) and parsed(text) not in existing:
            where = line(file.text, "tables", "sequences")
            raise BadOption(
                f"{file.path}:{where}: sequence {parsed(text)} does not exist on node"
                f" {file.root.name}",
                detail="nothing was changed",
                hint="create it there first, or remove it from the file",
            )
    found: dict[str, list[TableName]] = {}
    for node in file.nodes.values():
        if node.provider is None:
            names = [name for name, users in existing.items() if not set(users) & set(tables)]
            names = [name for name in names if matches(name, section.sequences)]
        else:
            names = found[node.provider]
        own = node.tables.sequences
        found[node.name] = [name for name in names if own is None or matches(name, own)]
    return found


def _refuse_unknown(file: CascadeFile, existing: Collection[TableName]) -> None:
    """Raises BadOption for a name or pattern without a table: its rule would have no effect.

    A pattern of ``exclude`` may be about tables to come, and all patterns about the first table.
    """
    sections = {"tables": file.tables or TablesSection()}
    sections |= {f"nodes.{name}.tables": node.tables for name, node in file.nodes.items()}
    for section, part in sections.items():
        entries: list[tuple[str, str | None, str]]
        entries = [(section, "include", text) for text in part.include or ()]
        entries += [(section, "exclude", t) for t in part.exclude if not is_pattern(t)]
        entries += [(f'{section}."{text}"', None, text) for text in part.rules]
        for head, key, text in entries:
            several = is_pattern(text)
            if any(matches(name, [text]) for name in existing) or (several and not existing):
                continue
            where, root = line(file.text, head, key), file.root.name
            raise BadOption(
                f"{file.path}:{where}: pattern {text} matches no table of node {root}"
                if several
                else f"{file.path}:{where}: table {parsed(text)} does not exist on node {root}",
                detail="nothing was changed",
                hint=_pattern_meant(text, existing)
                if several
                else table_meant(
                    text, existing, "create it there first, or remove it from the file"
                ),
            )


def _pattern_meant(text: str, existing: Collection[TableName]) -> str:
    """The hint for a pattern that matches no table."""
    schema, _, rest = text.partition(".")
    schemas = {name.schema for name in existing}
    close = difflib.get_close_matches(schema, schemas - {schema}, n=1) if rest else []
    return f"did you mean {close[0]}.{rest}?" if close else "correct it, or remove it from the file"


def _of_root(
    section: TablesSection,
    node: NodeSection,
    existing: Mapping[TableName, bool],
) -> list[TableName]:
    include = section.include
    if include is None:
        include = tuple(name for name in section.rules if not is_pattern(name))
    plain = [parsed(text) for text in include if not is_pattern(text)]
    names = [
        name
        for name, partition in existing.items()
        if name in plain or (not partition and matches(name, include))
    ]
    return _kept([name for name in names if not matches(name, section.exclude)], node.tables)


def _kept(names: Sequence[TableName], section: TablesSection) -> list[TableName]:
    """The tables that the section of a node keeps."""
    return [
        name
        for name in names
        if (section.include is None or matches(name, section.include))
        and not matches(name, section.exclude)
    ]


def _rule(section: TablesSection, node: NodeSection, name: TableName) -> Rule:
    """The rule of a table on a node; the root has only those of its own section."""
    merged: dict[str, Any] = {}
    for part in (section, node.tables) if node.provider is not None else (node.tables,):
        patterns = [text for text in part.rules if matches(name, [text])]
        for text in sorted(patterns, key=lambda text: not is_pattern(text)):
            merged |= part.rules[text]
    return Rule.of(_attrs(name, merged).attrs()) if merged else Rule()


def _attrs(name: TableName, rule: Mapping[str, Any]) -> HandlerAttrs:
    policy = str(rule.get("on_error") or "error")
    stored = table_rules.RESOLUTIONS.get(policy, policy)
    if stored not in table_rules.POLICIES:
        raise BadOption(
            f"table {name}: unknown conflict resolution {policy}",
            hint=f"use one of {', '.join(table_rules.RESOLUTIONS)}",
        )
    arguments = rule.get("handler_args") or {}
    if not isinstance(arguments, dict):
        raise BadOption(
            f"table {name}: handler_args is no table", hint='write handler_args = { key = "value" }'
        )
    texts = [f"{key}={_text(value)}" for key, value in arguments.items()]
    found = HandlerAttrs(
        registry.parse(str(rule.get("handler") or ""), texts),
        str(rule.get("where") or "").strip(),
        _names(rule.get("columns")),
        _names(rule.get("skip_columns")),
        stored,
    )
    table_rules.wants(found.attrs())
    return found


def _handler(text: str) -> str:
    """The name of a handler without its options."""
    return text.partition("(")[0]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return ",".join(map(_text, value)) if isinstance(value, list) else str(value)


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    return tuple(str(name) for name in value or () if str(name))
