"""A root and a leaf on two servers with real processes, for tables of all shapes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from londiste.cascade.model import NodeType
from londiste.embedded.binaries import find_binaries
from londiste.errors import ServerBinariesMissing
from tests.fix_cluster import Database, Server, create_database, start_server, wanted_version
from tests.fix_line import Line, LineNode
from tests.scenarios.processes import Processes

#: Under these both servers write one text for equal values.
PINNED = "-c TimeZone=UTC -c DateStyle=ISO -c extra_float_digits=1 -c bytea_output=hex"


@pytest.fixture(scope="session")
def server_of(cluster: Server) -> Iterator[Callable[[int], Server]]:
    """``server_of(15)`` -- a server of this release, started once; skips where there is none."""
    started: dict[int, Server] = {wanted_version(): cluster}

    def find(version: int) -> Server:
        if version not in started:
            try:
                find_binaries(version)
            except ServerBinariesMissing as error:
                pytest.skip(f"no PostgreSQL {version} here: {error}")
            server = start_server(f"shapes{version}", version)
            stack.enter_context(server)
            started[version] = server
        return started[version]

    with contextlib.ExitStack() as stack:
        yield find


@dataclass
class Shapes:
    """Two nodes; tables are added, written to on ``root`` and compared.

    options -- settings of the leaf.
    """

    line: Line
    root: LineNode
    leaf: LineNode
    names: dict[str, str] = field(default_factory=dict)

    def run(self, *statements: str) -> None:
        """On the root, each in a transaction of its own."""
        for statement in statements:
            self.root.database.execute(statement)

    def add(self, *tables: str, root: dict[str, Any] | None = None, **options: Any) -> None:
        """Registers tables on the root and, to be copied, on the leaf."""
        self.line.add(self.root, *tables, **(root or {}))
        self.line.add(self.leaf, *tables, **{"expect_sync": False, **options})

    def sync(self, *tables: str, seconds: float = 60) -> None:
        """Waits until the tables (none: all) are copied."""
        worker = self.leaf.worker
        if worker is None:
            self.line.start(self.leaf)

        def states() -> bool:
            self.root.database.execute("select pgq.ticker('line')")
            found = self.leaf.database.execute(
                "select table_name, merge_state from londiste.table_info where local"
            )
            return all(state == "ok" for name, state in found if not tables or name in tables)

        self.line.wait(states, "the copies", seconds)

    def replay(self) -> None:
        """Waits until the leaf has all that was written."""
        if self.leaf.worker is None:
            self.line.start(self.leaf)
        self.line.wait_position(self.leaf, self.line.tick())

    def compare(self, *tables: str, **dest: str) -> None:
        """Both sides have the same rows, by the texts of the root's columns."""
        for table in tables:
            here = dest.get(table.rpartition(".")[2], table)
            there, ours = self.rows(table), self.rows(here, columns=self.columns(table))
            assert there == ours, table

    def columns(self, table: str) -> list[str]:
        """The names of the columns, quoted, in their order on the root."""
        return [
            row[0]
            for row in self.root.database.execute(
                "select quote_ident(attname) from pg_attribute where attrelid = %s::regclass"
                " and attnum > 0 and not attisdropped order by attnum",
                table,
            )
        ]

    def rows(self, table: str, *, columns: Sequence[str] | None = None) -> list[str]:
        """The rows as texts, in the order of their bytes; on the leaf if columns are named."""
        database = self.root.database if columns is None else self.leaf.database
        names = ", ".join(self.columns(table) if columns is None else columns)
        kind = database.value("select relkind::text from pg_class where oid = %s::regclass", table)
        with psycopg.connect(database.dsn, options=PINNED) as conn:
            found = conn.execute(
                f'select r collate "C" from (select row({names})::text as r'
                f" from {'' if kind == 'p' else 'only '}{table}) x order by 1".encode()
            ).fetchall()
        return [row[0] for row in found]


@pytest.fixture
def shapes_on(tmp_path: Any, server_of: Callable[[int], Server]) -> Iterator[Callable[..., Shapes]]:
    """``shapes_on(15, 18, schema)``: a root on 15 and a leaf on 18, with these tables on both."""
    made: list[Database] = []
    lines: list[Line] = []

    def database(*, on: Server, pgq: bool = False) -> Database:
        made.append(create_database(on, pgq=pgq))
        return made[-1]

    def make(
        source: int, target: int, schema: str = "", target_schema: str | None = None, **keys: Any
    ) -> Shapes:
        line = Line(tmp_path, database, Processes(tmp_path))
        lines.append(line)
        root = line.node("root", NodeType.ROOT, schema=schema, on=server_of(source))
        leaf = line.node(
            "leaf",
            NodeType.LEAF,
            root,
            schema=schema if target_schema is None else target_schema,
            on=server_of(target),
            parallel_copies=2,
            **keys,
        )
        return Shapes(line, root, leaf)

    yield make
    for line in lines:
        assert not line.processes.close()
    for each in made:
        each.drop()
