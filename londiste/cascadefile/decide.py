"""Plan of a cascade file: file and state give the ordered actions; pure.

finish what an interrupted command has begun
install the SQL, create nodes from the root down, set parameters of the queue
add tables and sequences from the root down, change handlers, filters and conflict resolutions
switch over, when another node should be the root; move nodes, from the root down
remove tables and sequences, and drop nodes, from the leaves up
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from londiste.cascade.model import NodeType
from londiste.cascade.switching.operation_log import Operation, OperationKind
from londiste.cascadefile.action import Action, Kind
from londiste.cascadefile.wanted import Rule, WantedTables
from londiste.db.names import TableName
from londiste.errors import StateError
from londiste.settings.cascade_file import CascadeFile


@dataclass(frozen=True)
class TableState:
    """A table that a node replicates: its rule, and its sync state.

    copy_below -- an interrupted command has changed it; nodes below have yet to copy it again.
    """

    rule: Rule = field(default_factory=Rule)
    state: str | None = "ok"
    copy_below: bool = False


@dataclass(frozen=True)
class NodeState:
    """A database of the file, or another node of the cascade.

    type -- None: no node of the queue.
    tables, sequences -- that it replicates; relations -- bytes of the tables of the database.
    users -- sequences of the database, with the tables whose columns use them.
    """

    installed: bool = True
    type: NodeType | None = None
    provider: str = ""
    worker: str = ""
    location: str = ""
    tables: Mapping[TableName, TableState] = field(default_factory=dict)
    relations: Mapping[TableName, int] = field(default_factory=dict)
    sequences: frozenset[TableName] = frozenset()
    users: Mapping[TableName, Collection[TableName]] = field(default_factory=dict)

    @property
    def of_columns(self) -> set[TableName]:
        """The sequences of the columns of its replicated tables."""
        return {name for name, users in self.users.items() if self.tables.keys() & set(users)}


@dataclass(frozen=True)
class CascadeState:
    """What the databases have.

    nodes -- those of the file; others -- nodes of the cascade that it does not have.
    operations -- unfinished changes, by the node that has the record.
    parameters -- of the queue by node, those of the file, as the server prints them.
    wanted -- the file's parameters in the same form.
    """

    nodes: Mapping[str, NodeState]
    others: Mapping[str, NodeState] = field(default_factory=dict)
    operations: Mapping[str, Operation] = field(default_factory=dict)
    parameters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    wanted: Mapping[str, str] = field(default_factory=dict)

    @property
    def roots(self) -> list[str]:
        known = {**self.nodes, **self.others}
        return [name for name, node in known.items() if node.type is NodeType.ROOT]


def decide(file: CascadeFile, state: CascadeState, tables: WantedTables | None) -> list[Action]:
    """The actions that make the databases like the file, in order; none if they are.

    Raises StateError for a difference that no action can remove.
    """
    root = _present_root(file, state)
    _refuse(file, state, root)
    begun = list(_unfinished(file, state))
    done = {(action.kind, action.node) for action in begun}
    found = [
        *begun,
        *(Action(Kind.INSTALL, n) for n, node in state.nodes.items() if not node.installed),
        *_nodes(file, state, root),
        *(_tables(file, state, tables, root) if tables is not None else ()),
        *(_sequences(file, state, tables, root) if tables is not None else ()),
        *_switchover(file, state, tables, root),
        *_moves(file, state, tables, root),
        *(_removed_tables(file, state, tables, root) if tables is not None else ()),
        *(_removed_sequences(file, state, tables, root) if tables is not None else ()),
        *_removed_nodes(state),
    ]
    rest = [action for action in found[len(begun) :] if (action.kind, action.node) not in done]
    return [*begun, *rest]


def _present_root(file: CascadeFile, state: CascadeState) -> str | None:
    """The root before the plan; of two in a switchover the old one.  None: there is no node."""
    roots = state.roots
    for operation in state.operations.values():
        if operation.kind is OperationKind.SWITCHOVER and operation.node in roots:
            return operation.node
    if len(roots) > 1:
        raise StateError(
            f"queue {file.queue}: {len(roots)} roots: {', '.join(roots)}",
            hint="londiste status shows the nodes; rejoin the failed one: londiste resurrect",
        )
    if not roots and any(node.type is not None for node in state.nodes.values()):
        raise StateError(
            f"queue {file.queue}: no root answers",
            hint="londiste status shows the nodes; if the root has failed: londiste takeover NODE"
            " --failover",
        )
    return roots[0] if roots else None


def _refuse(file: CascadeFile, state: CascadeState, root: str | None) -> None:
    """Raises StateError for a node whose type or worker differs from the file."""
    for name, section in file.nodes.items():
        node = state.nodes[name]
        if node.type is None:
            continue
        after = NodeType.BRANCH if node.type is NodeType.ROOT else node.type
        if section.role == "root" and node.type is NodeType.LEAF:
            raise StateError(
                f"node {name} is a leaf and cannot become the root",
                hint=f"make another node the root; or remove node {name} from the file, apply, and"
                " add it as a branch",
            )
        if section.role != "root" and section.role != after.value:
            raise StateError(
                f"node {name} is a {after.value}"
                f"{' after the switchover' if node.type is NodeType.ROOT else ''},"
                f" not a {section.role}",
                detail="the role of a node cannot be changed",
                hint=f'write role = "{after.value}"; or remove it from the file, apply, and add it'
                " again",
            )
        if node.worker and node.worker != section.worker:
            raise StateError(
                f"node {name}: its worker is {node.worker}, not {section.worker}",
                hint=f'write worker = "{node.worker}" in [nodes.{name}]',
            )


def _unfinished(file: CascadeFile, state: CascadeState) -> Iterator[Action]:
    """What interrupted commands have begun.  Raises StateError where the file differs."""
    seen: set[tuple[OperationKind, str]] = set()
    for at, operation in state.operations.items():
        if (operation.kind, operation.node) in seen:
            continue
        seen.add((operation.kind, operation.node))
        section = file.nodes.get(operation.node)
        match operation.kind:
            case OperationKind.SWITCHOVER if operation.new == file.root.name:
                yield Action(Kind.SWITCHOVER, operation.new, "root", operation.node, resumed=True)
            case OperationKind.CHANGE_PROVIDER if (
                section is not None and operation.new == section.provider
            ):
                yield Action(Kind.MOVE, operation.node, other=operation.new, resumed=True)
            case OperationKind.DROP_NODE if section is None:
                yield Action(Kind.DROP, operation.node, resumed=True)
            case _:
                raise StateError(
                    f"node {at}: {operation.describe()} is under way",
                    hint=operation.way_out(at),
                )


def _nodes(file: CascadeFile, state: CascadeState, root: str | None) -> Iterator[Action]:
    """New nodes, each after its provider; parameters of the queue before nodes that inherit."""
    for name, section in file.nodes.items():
        node = state.nodes[name]
        if node.type is None:
            if root is None or section.role != "root":
                yield Action(Kind.CREATE, name, section.role, section.provider or "")
            else:
                # It becomes the root later.
                yield Action(Kind.CREATE, name, "branch", root)
        keeps_queue = section.role != "leaf"
        inherits = node.type is None and (root is not None or section.role != "root")
        if keeps_queue and not inherits:
            now = state.parameters.get(name, {})
            values = {k: v for k, v in state.wanted.items() if now.get(k) != v}
            if values:
                yield Action(Kind.SET_QUEUE, name, values=tuple(values.items()))


def _tables(
    file: CascadeFile, state: CascadeState, tables: WantedTables, root: str | None
) -> Iterator[Action]:
    """Tables to add, and rules to change, from the root down."""
    at_root = root or file.root.name
    sizes = {**state.others, **state.nodes}[at_root].relations
    for name in sorted(file.nodes, key=lambda name: _depth(name, file, state)):
        node = state.nodes[name]
        is_root = name == at_root
        added: dict[Rule, list[TableName]] = {}
        rules: dict[tuple[Rule, bool, bool], list[TableName]] = {}
        policies: dict[str, list[TableName]] = {}
        for table, rule in tables.nodes[name].items():
            now = node.tables.get(table)
            if now is None:
                added.setdefault(rule, []).append(table)
                continue
            other = now.rule.attrs != rule.attrs
            if other or now.copy_below:
                exposes = rule.exposes_more_than(now.rule)
                key = (replace(rule, policy="halt"), not other, exposes)
                rules.setdefault(key, []).append(table)
            if now.rule.policy != rule.policy:
                policies.setdefault(rule.policy, []).append(table)
        role = "root" if is_root else ""
        for rule, names in added.items():
            yield Action(
                Kind.ADD,
                name,
                role,
                tables=tuple(names),
                attrs=rule.attrs,
                policy=rule.policy,
                copied=0 if is_root else sum(sizes.get(t, 0) for t in names),
                deleted=0 if is_root else sum(node.relations.get(t, 0) for t in names),
            )
        for (rule, resumed, exposes), names in rules.items():
            copied = 0 if is_root or resumed else sum(sizes.get(t, 0) for t in names)
            yield Action(
                Kind.RULE,
                name,
                role,
                tables=tuple(names),
                attrs=rule.attrs,
                copied=copied,
                resumed=resumed,
                exposes=exposes,
            )
        for policy, names in policies.items():
            yield Action(Kind.POLICY, name, role, tables=tuple(names), policy=policy)


def _sequences(
    file: CascadeFile, state: CascadeState, tables: WantedTables, root: str | None
) -> Iterator[Action]:
    """Sequences to add: of the file, and of columns of tables that are replicated already."""
    at_root = root or file.root.name
    top = {**state.others, **state.nodes}[at_root]
    listed = tables.sequences or {}
    known = top.sequences | top.of_columns | set(listed.get(at_root, ()))
    for name in sorted(file.nodes, key=lambda name: _depth(name, file, state)):
        node = state.nodes[name]
        new = (node.of_columns & known | set(listed.get(name, ()))) - node.sequences
        if new:
            role = "root" if name == at_root else ""
            yield Action(Kind.ADD_SEQ, name, role, sequences=tuple(sorted(new)))


def _depth(name: str, file: CascadeFile, state: CascadeState) -> int:
    """Nodes above this one, before any moves; new nodes are below their provider of the file."""
    known = {**state.others, **state.nodes}
    seen: list[str] = []
    while name not in seen:
        seen.append(name)
        node = known.get(name)
        if node is None or node.type is NodeType.ROOT:
            break
        above = file.nodes[name].provider if node.type is None else node.provider
        name = above or name
    return len(seen)


def _switchover(
    file: CascadeFile, state: CascadeState, tables: WantedTables | None, root: str | None
) -> Iterator[Action]:
    new = file.root.name
    if root is None or root == new:
        return
    if _copies(new, state, tables):
        yield Action(Kind.WAIT, new)
    yield Action(Kind.SWITCHOVER, new, "root", root)


def _copies(name: str, state: CascadeState, tables: WantedTables | None) -> bool:
    """Whether a node has tables to copy before or during the plan."""
    node = state.nodes[name]
    if node.type is NodeType.ROOT:
        return False
    if any(table.state != "ok" for table in node.tables.values()):
        return True
    return tables is not None and any(
        table not in node.tables or node.tables[table].rule.attrs != rule.attrs
        for table, rule in tables.nodes[name].items()
    )


def _moves(
    file: CascadeFile, state: CascadeState, tables: WantedTables | None, root: str | None
) -> Iterator[Action]:
    """Nodes below other providers than now, from the root down: so no circle can arise."""
    waited = {file.root.name}
    for name, section in file.nodes.items():
        node = state.nodes[name]
        if section.provider is None or node.type is None:
            continue
        now = file.root.name if name == root else node.provider
        if now != section.provider:
            if section.provider not in waited and _copies(section.provider, state, tables):
                # A provider must have the rows before a node reads from it.
                waited.add(section.provider)
                yield Action(Kind.WAIT, section.provider)
            yield Action(Kind.MOVE, name, other=section.provider)


def _removed_tables(
    file: CascadeFile, state: CascadeState, tables: WantedTables, root: str | None
) -> Iterator[Action]:
    at_root = file.root.name
    # What the root no longer has is removed elsewhere by an event that is on its way.
    before = {**state.others, **state.nodes}.get(root or at_root, NodeState())
    gone = [t for t in before.tables if t not in tables.nodes[at_root]]
    for name in reversed(list(file.nodes)):
        if name == at_root:
            continue
        mine = [
            t
            for t in state.nodes[name].tables
            if t not in tables.nodes[name] and t not in gone and t in before.tables
        ]
        if mine:
            kept = _kept_sequences(state.nodes[name], mine, name, tables)
            yield Action(Kind.REMOVE, name, tables=tuple(mine), sequences=kept)
    if gone:
        kept = _kept_sequences(before, gone, at_root, tables)
        yield Action(Kind.REMOVE, at_root, "root", tables=tuple(gone), sequences=kept)


def _kept_sequences(
    node: NodeState, removed: Collection[TableName], name: str, tables: WantedTables
) -> tuple[TableName, ...]:
    """Sequences of the columns of removed tables that the file names."""
    listed = (tables.sequences or {}).get(name, ())
    return tuple(sorted(one for one in listed if set(node.users.get(one, ())) & set(removed)))


def _removed_sequences(
    file: CascadeFile, state: CascadeState, tables: WantedTables, root: str | None
) -> Iterator[Action]:
    """Sequences that neither the file names nor a replicated table uses."""
    if tables.sequences is None:
        return
    at_root = file.root.name
    before = {**state.others, **state.nodes}.get(root or at_root, NodeState())
    gone = before.sequences - before.of_columns - set(tables.sequences[at_root])
    # What goes with a table of the root.
    left = _of_columns(before, tables.nodes[at_root])
    gone_then = gone | before.of_columns - left - set(tables.sequences[at_root])
    for name in reversed(list(file.nodes)):
        node = state.nodes[name]
        used = _of_columns(node, tables.nodes[name]) | left | gone_then
        mine = (node.sequences & before.sequences) - used - set(tables.sequences[name])
        if mine and name != at_root:
            yield Action(Kind.REMOVE_SEQ, name, sequences=tuple(sorted(mine)))
    if gone:
        yield Action(Kind.REMOVE_SEQ, at_root, "root", sequences=tuple(sorted(gone)))


def _of_columns(node: NodeState, wanted: Collection[TableName]) -> set[TableName]:
    """The sequences of the columns of those replicated tables of a node that stay."""
    staying = {name for name in node.tables if name in wanted}
    return {name for name, users in node.users.items() if staying & set(users)}


def _removed_nodes(state: CascadeState) -> Iterator[Action]:
    """Nodes that the file does not have, each before its provider."""
    left = dict(state.others)
    while left:
        providers = {node.provider for name, node in left.items() if node.provider != name}
        leaves = [name for name in left if name not in providers] or list(left)
        for name in leaves:
            yield Action(Kind.DROP, name)
            del left[name]
