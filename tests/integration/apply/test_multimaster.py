"""Two roots write one table: of every row the newest version stays on both, nothing loops."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from londiste.cascade.commands.create_node import NewNode, create_leaf, create_root
from londiste.cascade.model import NodeType
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import execute
from tests.fixtures.cluster import Database
from tests.fixtures.line import Line, LineNode

SCHEMA = "create table t (id int primary key, v text, doc jsonb, at timestamptz not null)"
ROWS = "select id, v, doc::text, at from t order by id"


@dataclass
class Master:
    """A database that is the root of the queue of its name and a leaf of the other's."""

    name: str
    database: Database
    root: LineNode
    leaf: LineNode | None = None


def node(line: Line, queue: str, name: str, database: Database, provider: Any = None) -> LineNode:
    new = NewNode(
        queue,
        NodeType.LEAF if provider else NodeType.ROOT,
        name,
        database.dsn,
        database.dsn,
        f"{name}_worker",
    )
    with Connections(name="test") as sites:
        execute(
            create_leaf(sites, new, provider.dsn) if provider else create_root(sites, new), sites
        )
    made = LineNode(name, database, Path(line.directory / f"{name}.toml"))
    line.configure(made, queue_name=queue)
    return made


def ticked(line: Line, queue: str, master: Master, reader: LineNode) -> None:
    master.database.execute("select pgq.force_tick(%s)", queue)
    tick = master.database.value("select pgq.ticker(%s)", queue)
    line.wait_position(reader, int(tick))


def test_the_newest_version_stays_on_both_masters(line: Line, new_database: Any) -> None:
    masters = []
    for name in ("east", "west"):
        database = new_database(pgq=True)
        database.execute(SCHEMA)
        masters.append(Master(name, database, node(line, name, f"{name}_root", database)))
    east, west = masters
    for master in masters:
        assert line.here(master.root, "add-table", "t").code == 0
    east.database.execute(
        "insert into t select i, 'start', '{}', '2026-01-01' from generate_series(1, 20) i"
    )
    words = ("--handler", "multimaster", "--handler-arg", "timefield=at")
    for here, there, more in ((west, east, ()), (east, west, ("--expect-sync",))):
        here.leaf = node(line, there.name, f"{here.name}_leaf", here.database, there.database)
        done = line.here(here.leaf, "add-table", "t", *words, *more)
        assert done.code == 0, str(done)
        line.start(here.leaf)
        line.wait(
            lambda here=here, there=there: (
                there.database.execute("select pgq.force_tick(%s)", there.name),
                there.database.execute("select pgq.ticker(%s)", there.name),
                here.database.value(
                    "select merge_state from londiste.table_info where queue_name = %s",
                    there.name,
                )
                == "ok",
            )[2],
            "the table in step",
        )
    assert west.database.execute(ROWS) == east.database.execute(ROWS) != []
    chance = random.Random(3)
    newest: dict[int, tuple[Any, ...]] = {}
    for number in range(60):
        master, id = chance.choice(masters), chance.randrange(1, 30)
        # Clocks of which one is behind the other.
        at = f"2026-02-01 00:{chance.randrange(60):02}:{number:02}"
        before = master.database.value("select max(at) < %s from t where id = %s", at, id)
        if before is False:
            continue
        master.database.execute(
            "insert into t values (%s, %s, '{\"n\": 1}', %s) on conflict (id)"
            " do update set v = excluded.v, doc = excluded.doc, at = excluded.at",
            id,
            f"{master.name} {number}",
            at,
        )
        newest[id] = max(newest.get(id, ("",)), (at, f"{master.name} {number}"))
    for _ in range(2):
        for here, there in ((west, east), (east, west)):
            assert here.leaf is not None
            ticked(line, there.name, there, here.leaf)
    found = east.database.execute(ROWS)
    assert west.database.execute(ROWS) == found
    assert {row[0]: row[1] for row in found if row[0] in newest} == {
        id: text for id, (_, text) in newest.items()
    }
    # What came from the other is nobody's event.
    for master in masters:
        told = master.database.value(
            "select count(*) from pgq.event_template where ev_extra1 = 'public.t'"
            " and ev_data not like %s and ev_data not like '%%start%%'",
            f"%{master.name}%",
        )
        assert told == 0
    # The trigger that the documentation recommends, with a clock that is behind on one side.
    page = Path(__file__).parents[3] / "docs/howto/multimaster.md"
    [recipe] = [part for part in page.read_text().split("```") if part.startswith("sql\n")]
    recipe = recipe.removeprefix("sql\n").replace("new.modified", "new.at")
    recipe = recipe.replace("old.modified", "old.at").replace("on accounts", "on t")
    east.database.execute(recipe)
    behind = "clock_timestamp() - interval '1 hour'"
    west.database.execute(recipe.replace("clock_timestamp()", behind))
    rows = []
    for here, there, text in ((east, west, "by east"), (west, east, "later, by west")):
        here.database.execute(
            "insert into t values (100, 'first', null, '2000-01-01') on conflict do nothing"
        )
        here.database.execute("update t set v = %s where id = 100", text)
        assert there.leaf is not None
        ticked(line, here.name, here, there.leaf)
        rows.append(
            [m.database.execute(ROWS.replace("order", "where id = 100 order")) for m in masters]
        )
    assert all(mine == theirs for mine, theirs in rows)
    assert rows[1][0][0][1] == "later, by west"
    assert masters[0].database.execute(ROWS) == masters[1].database.execute(ROWS)
