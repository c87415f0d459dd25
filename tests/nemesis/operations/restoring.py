"""Databases that are restored from an earlier state, and the documented way back.

A node that was restored, or whose provider was, has to say so before it applies anything else.
"""

from __future__ import annotations

import subprocess
from typing import Any

import psycopg

from londiste.embedded.postgres import Cluster
from tests.nemesis import validators
from tests.nemesis.cast import TICKS, Cast
from tests.nemesis.operations.change import OPERATIONS, Args, Change, has_branch
from tests.nemesis.operations.nodes import stop_worker
from tests.nemesis.plan import Model
from tests.nemesis.stage import PART
from tests.nemesis.worlds import SOURCE, World
from tests.support.waiting import wait_for

#: Later than every tick: what a tick sees is not compared.
_NEVER = 1 << 62
_POSITION = (
    "select s.last_tick_id from pgq_node.local_state s join pgq_node.node_info n"
    " on n.queue_name = s.queue_name and n.worker_name = s.consumer_name"
    " where n.node_type <> 'root' and n.queue_name = %s"
)
_LOST = "has lost its position"
_AGAIN = "worker --rewind --force-resync"


def _restorable(model: Model) -> list[str]:
    """A branch needs the events that it has passed on, so its provider must still have them."""
    return [n for n in model.subscribers() if n in model.world.leaves or not model.rotates]


@OPERATIONS.add(
    "restore",
    when=lambda model: bool(_restorable(model)),
    draw=lambda model, chance: {
        "node": chance.choice(_restorable(model)),
        "how": chance.choice(["clone", "dump"]),
    },
    more=Change(newer=True),
)
def restore(model: Model, args: Args) -> list[Any]:
    """A subscriber is restored from its own backup."""
    node = args["node"]
    if node == model.root:
        return []
    below = [n for n, up in model.world.providers.items() if up == node]
    merged = model.merged
    # Its database may have a leaf of another queue.
    readers = {node: model.world.providers[node] or ""}
    readers |= dict.fromkeys(model.world.others(), SOURCE)

    def lost(life: Any) -> None:
        _save(life.cast, node, args["how"])
        for one, provider in readers.items():
            _beyond(life, one, provider, _reached(life, one))
        for one in readers:
            _without_worker(life, one)
        _put_back(life, node, args["how"])
        for one in readers:
            life.cast.start_worker(one)
        for one in readers:
            _says(life, one)
            _rewound(life, one)

    def continues(life: Any) -> None:
        """Nodes below, which are ahead of it, continue by themselves or say what they need."""
        tick = int(life.cast.value(life.model.root, f"select max(tick_id) from {TICKS} t"))
        for one in [node, *below]:

            def decided(one: str = one) -> bool:
                life.revive()
                return _reached(life, one) >= tick or (one != node and _is_lost(life, one))

            validators.advancing(life.cast, one, decided, f"tick {tick} on {one}")
            if _is_lost(life, one):
                _rewound(life, one)
        if merged and not life.model.merged:
            life.command(node, "add-table", PART, "--merge-all")
            life.model.merged = True

    return [lost, continues]


def _beyond(life: Any, node: str, provider: str, saved: int) -> None:
    """Waits until a node has gone further than its backup, and its provider knows of it."""

    def known() -> bool:
        life.revive()
        rows = life.cast.rows(
            provider,
            "select last_tick from pgq.get_consumer_info() where consumer_name = %s",
            f"{node}_worker",
        )
        return bool(rows) and rows[0][0] > saved and _reached(life, node) > saved

    wait_for(known, timeout=validators.CONVERGES, what=f"progress of {node} beyond {saved}")


def _only_leaves(world: World) -> bool:
    return not has_branch(world) and not world.merges


@OPERATIONS.add(
    "restore root",
    when=lambda model: _only_leaves(model.world),
    draw=lambda model, chance: {"how": chance.choice(["clone", "dump"])},
    more=Change(fits=_only_leaves, newer=True),
)
def restore_root(model: Model, args: Args) -> list[Any]:
    """The root is restored to a time before the positions of its leaves."""
    root = model.root

    def lost(life: Any) -> None:
        _save(life.cast, root, args["how"])
        saved = int(life.cast.value(root, f"select max(tick_id) from {TICKS} t"))
        for leaf in life.model.subscribers():
            wait_for(
                lambda leaf=leaf: life.revive() or _reached(life, leaf) > saved + 1,
                timeout=validators.CONVERGES,
                what=f"progress of {leaf} beyond {saved}",
            )
        with life.writer.held():
            for watcher in life.watchers:
                watcher.moved(_NEVER)
            _put_back(life, root, args["how"])
        had = {leaf: _ledger(life, leaf) for leaf in life.model.subscribers()}
        for leaf, rows in had.items():
            _says(life, leaf)
            life.pass_time(0.3)
            assert _ledger(life, leaf) == rows, f"{leaf} applies events of another history"

    def again(leaf: str) -> Any:
        return lambda life: _rewound(life, leaf, same=False)

    def compared(life: Any) -> None:
        with life.writer.held():
            validators.settle(life, "after a restored root")
            life.watched_from_here()

    return [lost, *[again(leaf) for leaf in model.subscribers()], compared]


def _put_back(life: Any, node: str, how: str) -> None:
    """Restores a node; who looks at it does not compare it with what it was."""
    threads = [t for t in (*life.consumers, *life.watchers) if t.node == node]
    for thread in threads:
        thread.away = True
    _restore(life.cast, node, how)
    for thread in threads:
        # What it has begun to see before belongs to the old database.
        thread.forget()
        thread.away = False


def _reached(life: Any, node: str) -> int:
    return int(life.cast.value(node, _POSITION, life.cast.places[node].queue) or 0)


def _ledger(life: Any, node: str) -> list[int]:
    return sorted(n for (n,) in life.cast.rows(node, "select n from nemesis.ledger"))


def _without_worker(life: Any, node: str) -> None:
    stop_worker(life, node)
    life.cast.places[node].worker = None


def _is_lost(life: Any, node: str) -> bool:
    query = "select max(cur_error) from pgq_node.local_state where queue_name = %s"
    error = life.cast.value(node, query, life.cast.places[node].queue)
    return _LOST in (error or "")


def _says(life: Any, node: str) -> None:
    """The worker stops and does not apply anything, and ``status`` says why."""
    wait_for(
        lambda: life.revive() or _is_lost(life, node),
        timeout=validators.CONVERGES,
        what=f"an error of {node}, which was restored or whose provider was",
    )
    fork = life.run(node, "status", "--json")
    assert fork.code() == 0 and _LOST in fork.out, f"no word of the lost position: {fork}"


def _rewound(life: Any, node: str, *, same: bool | None = None) -> None:
    """What the hint says: from the same tick if the provider has it, else all rows again.

    same -- False: the provider has another history, and the first is refused.
    """
    if life.cast.places[node].worker is not None:
        _without_worker(life, node)
    fork = life.run(node, "worker", "--rewind")
    validators.output(fork)
    if fork.code() == 0:
        assert same is not False, f"{node} continues in another history: {fork}"
        life.note(f"  {node} continues at its tick")
    else:
        validators.refusal(fork)
        assert _AGAIN in fork.err, f"no hint: {fork}"
        life.note(f"  {node} copies all tables again")
    watchers = [w for w in life.watchers if w.node == node]
    for watcher in watchers:
        watcher.away = True
    if fork.code() != 0:
        _without_parts(life, node)
    life.command(node, "worker", "--rewind", *([] if fork.code() == 0 else ["--force-resync"]))
    for watcher in watchers:
        watcher.forget()
        watcher.away = False
    life.cast.start_worker(node)


def _without_parts(life: Any, node: str) -> None:
    """A table with the parts of several queues is removed first, as the refusal says."""
    if not life.model.merged:
        return
    fork = life.run(node, "worker", "--rewind", "--force-resync")
    validators.refusal(fork)
    assert f"add-table {PART} --merge-all" in fork.err, f"no hint: {fork}"
    for one in (node, *life.model.world.others()):
        life.command(one, "remove-table", PART, "--ignore-missing")
    life.model.merged = False


def _save(cast: Cast, node: str, how: str) -> None:
    """A backup of the database of a node: a ``clone`` or a ``dump``."""
    database = cast.places[node].database
    server = database.cluster
    saved = f"{database.name}_backup"
    if how == "clone":
        server.drop_database(saved)
        cast.close_database(node)
        database.clone(saved)
        cast.open_database(node)
        return
    file = cast.directory / saved
    _program(server, "pg_dump", "-Fc", "-f", str(file), server.dsn(database.name))


def _restore(cast: Cast, node: str, how: str) -> None:
    """The database becomes what it was when it was saved; nobody sees a half of it."""
    database = cast.places[node].database
    server = database.cluster
    saved = f"{database.name}_backup"
    if how == "dump":
        server.drop_database(saved)
        server.create_database(saved)
        file = str(cast.directory / saved)
        words = ("--exit-on-error", "-d", server.dsn(saved), file)
        _program(server, "pg_restore", *words)
    database.close()
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as conn:
        row = conn.execute(
            "select pg_get_userbyid(datdba) from pg_database where datname = %s",
            [database.name],
        ).fetchone()
        assert row is not None
        server.drop_database(database.name)
        conn.execute(f"alter database {saved} owner to {row[0]}".encode())
        conn.execute(f"alter database {saved} rename to {database.name}".encode())


def _program(server: Cluster, name: str, *words: str) -> None:
    done = subprocess.run(
        [server.program(name), *words],
        env=server.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{name}: {done.stderr}"
