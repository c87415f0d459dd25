"""State of the databases of a cascade file: the only reader of ``plan`` and ``apply``.

Changes nothing.  Each database is asked once; nodes that the file does not have are found through
the others.
"""

from __future__ import annotations

from londiste.cascade import copied_database
from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.cascade.switching.cluster_state import ClusterState, look
from londiste.cascadefile.decide import CascadeState, NodeState, TableState
from londiste.cascadefile.export import Exported
from londiste.cascadefile.wanted import Rule
from londiste.db.advisory_lock import same_database
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName
from londiste.db.queries import fetch, first
from londiste.dsn import without_secrets
from londiste.errors import StateError
from londiste.install.apply import plan_for
from londiste.orchestration.connections import Connections
from londiste.pgq import config
from londiste.replication import sqlapi as tables
from londiste.replication.model import COPY_BELOW
from londiste.settings.cascade_file import CascadeFile

#: A database without it is no node.
_SCHEMA = "pgq_node"


class Reader:
    """What one command knows of the databases of a file.

    scene -- the cascade, None before its first node exists.
    existing -- tables of the root's database; the value: it is a partition.
    sequences -- of the root's database, with the tables whose columns use them.
    """

    def __init__(self, sites: Connections, file: CascadeFile, *, extra: str = "") -> None:
        self._sites = sites
        self._file = file
        sites.call_them({node.db: name for name, node in file.nodes.items()})
        self._infos = {name: self._info(name) for name in file.nodes}
        self._require_different()
        entry = self._entry()
        self.scene: ClusterState | None = (
            None if entry is None else look(sites, file.nodes[entry].db, file.queue, extra)
        )
        #: The database whose tables the patterns select; None: no root answers.
        self.root = root = self._root()
        self.existing: dict[TableName, bool] = {}
        self.sequences: dict[TableName, frozenset[TableName]] = {}
        if root is not None:
            self.sequences = sequences(sites.at(root))
            self.existing = {n: part for n, (part, _) in relations(sites.at(root)).items()}

    def state(self) -> CascadeState:
        """The state for ``decide``."""
        others: dict[str, NodeState] = {}
        operations = dict(self.scene.operations) if self.scene is not None else {}
        if self.scene is not None:
            for name, view in self.scene.topology.views.items():
                if name in self._file.nodes:
                    continue
                info = view.info
                dsn = self.scene.place(name).dsn
                is_root = info is not None and info.type is NodeType.ROOT
                others[name] = (
                    self._node(dsn, info) if is_root else _plain(info, view.member.location)
                )
        names = self._file.nodes
        return CascadeState(
            {name: self._node(names[name].db, self._infos[name]) for name in names},
            others,
            operations,
            self._parameters(),
            self._wanted(),
        )

    def _info(self, name: str) -> NodeInfo | None:
        conn = self._sites.at(self._file.nodes[name].db)
        if not _has_schema(conn):
            return None
        found = nodes.find_node_info(conn, self._file.queue)
        if found is not None and found.name != name:
            raise StateError(
                f"node {name}: its database is node {found.name} of queue {self._file.queue}",
                hint=f"write [nodes.{found.name}], or correct db",
            )
        if found is not None:
            copied_database.refuse(conn, self._file.queue, self._sites.reach)
        return found

    def _require_different(self) -> None:
        """Two nodes in one database would write over each other.  Raises StateError."""
        names = list(self._file.nodes)
        for number, name in enumerate(names):
            for other in names[:number]:
                one, two = (self._file.nodes[n].db for n in (name, other))
                if one == two or same_database(self._sites.at(one), self._sites.at(two)):
                    raise StateError(
                        f"nodes {other} and {name} are in the same database: {describe_dsn(one)}",
                        hint=f"correct db of [nodes.{name}]",
                    )

    def _entry(self) -> str | None:
        """A node to ask for the others: the root, if the file has it."""
        known = {name: info for name, info in self._infos.items() if info is not None}
        roots = [name for name, info in known.items() if info.type is NodeType.ROOT]
        return next(iter([*roots, *known]), None)

    def _root(self) -> str | None:
        """The database whose tables the patterns select: the present root's."""
        if self.scene is None:
            return self._file.root.db
        roots = self.scene.topology.roots
        own = [name for name in roots if name in self._file.nodes]
        if own:
            return self._file.nodes[own[0]].db
        return self.scene.place(roots[0]).dsn if roots else None

    def _node(self, dsn: str, info: NodeInfo | None) -> NodeState:
        conn = self._sites.at(dsn)
        installed = not any(plan.steps for plan in plan_for(conn))
        bytes_of = {name: size for name, (_, size) in relations(conn).items()}
        if info is None:
            return NodeState(installed=installed, relations=bytes_of)
        members = {m.name: m.location for m in nodes.get_queue_locations(conn, info.queue)}
        return NodeState(
            installed,
            info.type,
            info.provider,
            info.worker,
            members.get(info.name, ""),
            _tables(conn, info.queue),
            bytes_of,
            _replicated_sequences(conn, info.queue),
            sequences(conn),
        )

    def _parameters(self) -> dict[str, dict[str, str]]:
        """The file's parameters as the queue of each node has them."""
        found: dict[str, dict[str, str]] = {}
        for name, info in self._infos.items():
            if info is None or info.type is NodeType.LEAF or not self._file.parameters:
                continue
            conn = self._sites.at(self._file.nodes[name].db)
            now = config.read(conn, self._file.queue).get(self._file.queue, {})
            found[name] = {
                key: _normal(conn, key, now.get(key)) for key in map(config.parameter, self._keys())
            }
        return found

    def _wanted(self) -> dict[str, str]:
        conn = self._sites.at(self._file.root.db)
        return {
            key: _normal(conn, key, config.value(key, self._file.parameters[name]))
            for name in self._keys()
            for key in [config.parameter(name)]
        }

    def _keys(self) -> list[str]:
        return list(self._file.parameters)


#: Parameters of the queue that an export contains.
_EXPORTED = ("ticker_max_count", "ticker_max_lag", "ticker_idle_period", "rotation_period")


def existing(sites: Connections, dsn: str, queue: str, *, extra: str = "") -> Exported:
    """The cascade that the node at ``dsn`` belongs to.  Raises NodeUnreachable, UnknownNode."""
    scene = look(sites, dsn, queue, extra)
    found = {}
    for name, view in scene.topology.views.items():
        info = scene.info(name)
        conn = sites.at(scene.place(name).dsn)
        found[name] = NodeState(
            True,
            info.type,
            info.provider,
            info.worker,
            view.member.location,
            _tables(conn, queue),
            sequences=_replicated_sequences(conn, queue),
            users=sequences(conn),
        )
    root = sites.at(scene.place(scene.root().name).dsn)
    values = config.read(root, queue)[queue]
    return Exported(
        queue,
        found,
        {name: without_secrets(scene.place(name).dsn) for name in found},
        {key: _normal(root, key, values.get(key)) for key in _EXPORTED if key in values},
    )


def _tables(conn: Connection, queue: str) -> dict[TableName, TableState]:
    """The tables that a node replicates."""
    return {
        table.name: TableState(Rule.of(table.attrs), table.state, COPY_BELOW in table.attrs)
        for table in tables.get_table_list(conn, queue)
        if table.local
    }


def _replicated_sequences(conn: Connection, queue: str) -> frozenset[TableName]:
    return frozenset(s.name for s in tables.get_seq_list(conn, queue) if s.local)


def sequences(conn: Connection) -> dict[TableName, frozenset[TableName]]:
    """The sequences of a database, with the tables whose columns use them."""
    return {
        TableName(row["schema"], row["name"]): frozenset(map(TableName.parse, row["users"]))
        for row in fetch(conn, "file_sequences")
    }


def relations(conn: Connection) -> dict[TableName, tuple[bool, int]]:
    """The tables of a database: whether it is a partition, and bytes of its rows."""
    return {
        TableName(row["schema"], row["name"]): (bool(row["is_partition"]), int(row["bytes"]))
        for row in fetch(conn, "file_tables")
    }


def _plain(info: NodeInfo | None, location: str) -> NodeState:
    if info is None:
        return NodeState(location=location)
    return NodeState(True, info.type, info.provider, info.worker, location)


def _has_schema(conn: Connection) -> bool:
    row = conn.execute("select pg_catalog.to_regnamespace(%s) is not null", [_SCHEMA]).fetchone()
    return row is not None and bool(row[0])


def _normal(conn: Connection, key: str, value: str | None) -> str:
    """The value of a parameter as the server prints it.  Raises BadOption, UsageError."""
    if value is None:
        return "null"
    if config.PARAMETERS[key].kind != "interval":
        return value
    row = first(conn, "interval_text", value=value)
    return str(row[0]) if row is not None else value
