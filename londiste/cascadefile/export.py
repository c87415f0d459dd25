"""File of a cascade that exists: the state of its nodes as the text of a file; pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from londiste.cascade.model import NodeType
from londiste.cascadefile.decide import NodeState
from londiste.cascadefile.wanted import Rule
from londiste.configfile import toml_value
from londiste.db.names import TableName
from londiste.dsn import as_location
from londiste.handlers import registry, table_rules
from londiste.handlers.table_rules import HandlerAttrs
from londiste.replication.patterns import escaped


@dataclass(frozen=True)
class Exported:
    """A cascade to write down.

    nodes -- all of them; dsns -- how this process reaches their databases, without passwords.
    parameters -- of the queue, as the file should contain them.
    """

    queue: str
    nodes: Mapping[str, NodeState]
    dsns: Mapping[str, str] = field(repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict)


def text(cascade: Exported) -> str:
    """The file; nodes after their providers."""
    return "\n".join(_lines(cascade)).rstrip("\n") + "\n"


def _lines(cascade: Exported) -> Iterator[str]:
    order = _ordered(cascade.nodes)
    root = cascade.nodes[order[0]]
    common, special = _rules(cascade.nodes, order)
    extra = root.sequences - root.of_columns
    yield from ["[queue]", f"name = {toml_value(cascade.queue)}"]
    for key, value in cascade.parameters.items():
        yield f"{key} = {toml_value(value)}"
    for name in order:
        node = cascade.nodes[name]
        assert node.type is not None
        yield from ["", f"[nodes.{_key(name)}]", f"db = {toml_value(cascade.dsns[name])}"]
        yield f"role = {toml_value(node.type.value)}"
        if node.type is not NodeType.ROOT:
            yield f"provider = {toml_value(node.provider)}"
        if node.location and node.location != as_location(cascade.dsns[name]):
            yield f"location = {toml_value(node.location)}"
        if node.worker != f"{cascade.queue}_{name}":
            yield f"worker = {toml_value(node.worker)}"
        if node.type is not NodeType.ROOT:
            above = cascade.nodes[node.provider].tables
            missing = [escaped(table) for table in above if table not in node.tables]
            own = [f"exclude = {toml_value(missing)}"] if missing else []
            if extra & cascade.nodes[node.provider].sequences - node.sequences:
                own.append(f"sequences = {_names(extra & node.sequences)}")
            if own:
                yield from ["", f"[nodes.{_key(name)}.tables]", *own]
        for table, rule in special.get(name, {}).items():
            yield from _section(f"nodes.{_key(name)}.tables", table, rule)
    yield from [
        "",
        "[tables]",
        f"include = {toml_value([escaped(table) for table in root.tables])}",
    ]
    if extra:
        yield f"sequences = {_names(extra)}"
    for table, rule in common.items():
        yield from _section("tables", table, rule)


def _names(names: Collection[TableName]) -> str:
    return toml_value([escaped(name) for name in sorted(names)])


def _ordered(nodes: Mapping[str, NodeState]) -> list[str]:
    """The names of the nodes, each after its provider."""
    found = [name for name, node in nodes.items() if node.type is NodeType.ROOT]
    while more := [n for n, node in nodes.items() if n not in found and node.provider in found]:
        found += more
    return found


def _rules(
    nodes: Mapping[str, NodeState], order: Sequence[str]
) -> tuple[dict[TableName, Rule], dict[str, dict[TableName, Rule]]]:
    """Rules that all subscribers share, and rules of single nodes."""
    common: dict[TableName, Rule] = {}
    special: dict[str, dict[TableName, Rule]] = {}
    for table in nodes[order[0]].tables:
        having = [name for name in order[1:] if table in nodes[name].tables]
        rules = {nodes[name].tables[table].rule for name in having}
        if len(having) > 1 and len(rules) == 1 and rules != {Rule()}:
            common[table] = rules.pop()
    for name in order:
        for table, state in nodes[name].tables.items():
            shared = common.get(table, Rule()) if name != order[0] else Rule()
            if state.rule != shared:
                special.setdefault(name, {})[table] = state.rule
    return common, special


def _section(head: str, table: TableName, rule: Rule) -> Iterator[str]:
    """The section of a rule."""
    found = HandlerAttrs.of({**dict(rule.attrs), table_rules.ON_ERROR: rule.policy})
    yield from ["", f"[{head}.{toml_value(escaped(table))}]"]
    if found.handler:
        name, options = registry.split(found.handler)
        yield f"handler = {toml_value(name)}"
        if options:
            pairs = ", ".join(
                f"{_key(key)} = {toml_value(value)}" for key, value in options.items()
            )
            yield f"handler_args = {{ {pairs} }}"
    if found.where:
        yield f"where = {toml_value(found.where)}"
    if found.columns:
        yield f"columns = {toml_value(list(found.columns))}"
    if found.skip_columns:
        yield f"skip_columns = {toml_value(list(found.skip_columns))}"
    if found.on_error != "halt":
        yield f"on_error = {toml_value(table_rules.resolution(found.on_error))}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)
