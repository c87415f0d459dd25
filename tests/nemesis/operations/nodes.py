"""Operations on nodes and their workers."""

from __future__ import annotations

from typing import Any

from tests.nemesis import validators
from tests.nemesis.operations.change import (
    OPERATIONS,
    Args,
    Change,
    Words,
    branches,
    has_branch,
    subscriber,
)
from tests.nemesis.plan import Model
from tests.nemesis.writer import ALWAYS


def stop_worker(life: Any, node: str) -> None:
    worker = life.cast.places[node].worker
    worker.send(15)
    code = worker.wait(25)
    # -15: it had just begun, and did not handle signals yet.
    assert code in (0, -9, -15), f"worker ended with {code}: {worker.err[-1500:]}"


def _apply_rename(model: Model, args: Args) -> None:
    model.names[args["node"]] = args["name"]


@OPERATIONS.add(
    "rename-node",
    draw=lambda model, chance: {
        "node": chance.choice([model.root, *model.subscribers()]),
        "name": f"node{model.count('name')}",
    },
    more=Change(_apply_rename),
)
def rename_node(model: Model, args: Args) -> list[Words]:
    return [(model.root, ["rename-node", model.called(args["node"]), args["name"]])]


def _apply_recreate(model: Model, args: Args) -> None:
    model.names[args["node"]] = args["name"]
    for number in model.replicated[args["node"]]:
        model.whole(args["node"], number)


@OPERATIONS.add(
    "drop-node",
    # The parts of the other root would have to be added again.
    when=lambda model: not model.world.merges,
    draw=lambda model, chance: {
        "node": chance.choice(model.world.leaves),
        "name": f"node{model.count('name')}",
    },
    more=Change(_apply_recreate),
)
def drop_node(model: Model, args: Args) -> list[Any]:
    """A leaf goes, and the same database becomes another leaf, with all tables."""
    node = args["node"]
    provider = model.world.providers[node]
    assert provider is not None

    def without_worker(life: Any) -> None:
        stop_worker(life, node)
        life.cast.places[node].worker = None

    def made_again(life: Any) -> None:
        places = life.cast.places
        for watcher in life.watchers:
            if watcher.node == node:
                watcher.forget()
        words = [args["name"], places[node].location, "--provider", places[provider].location]
        life.command(node, "create-leaf", *words)
        life.cast.start_worker(node)

    names = [model.table(number).name for number in sorted(model.replicated[node])]
    return [
        without_worker,
        (model.root, ["drop-node", model.called(node)]),
        made_again,
        (node, ["add-table", *ALWAYS, *names]),
    ]


@OPERATIONS.add(
    "pause",
    draw=lambda model, chance: {"node": chance.choice(model.subscribers())},
    more=Change(),
)
def pause(model: Model, args: Args) -> list[Words]:
    node = subscriber(model, args)
    return [(node, ["pause", "--timeout", "20"]), (node, ["resume", "--timeout", "20"])]


@OPERATIONS.add(
    "status",
    draw=lambda model, chance: {"node": chance.choice([model.root, *model.subscribers()])},
    more=Change(),
)
def status(model: Model, args: Args) -> list[Words]:
    return [(args["node"], ["status", "--json"]), (args["node"], ["tables", "--json"])]


@OPERATIONS.add(
    "restart",
    draw=lambda model, chance: {"node": chance.choice(model.subscribers())},
    more=Change(),
)
def restart(model: Model, args: Args) -> list[Any]:
    """The worker is stopped politely and started again."""

    def again(life: Any) -> None:
        stop_worker(life, args["node"])
        life.cast.start_worker(args["node"])

    return [again]


@OPERATIONS.add(
    "local row",
    draw=lambda model, chance: {"node": chance.choice(model.subscribers())},
    more=Change(),
)
def local_row(model: Model, args: Args) -> list[Any]:
    """Somebody has inserted a row on a subscriber that the root inserts later: the worker halts."""
    node = subscriber(model, args)

    def meets(life: Any) -> None:
        with life.cast.connect(node) as conn:
            conn.execute("set session_replication_role = replica")
            with life.writer.held():
                number = life.writer.next_number()
                conn.execute("insert into nemesis.notice values (%s, 'local')", [number])
            validators.halts(life, node, number)
            conn.execute("delete from nemesis.notice where n = %s", [number])

    return [meets]


def _heirs(model: Model) -> list[str]:
    """The branches that read from the root, and keep all rows."""
    parts = {node for node, _ in model.filters}
    reading = [n for n in branches(model) if model.world.providers[n] == model.root]
    return [n for n in reading if n not in parts]


def _apply_switch(model: Model, args: Args) -> None:
    old, new = model.root, args["to"]
    up = model.world.providers[new]
    model.world.providers[new] = None
    model.world.providers[old] = new
    # A branch between them reads on as it did.
    if up != old:
        model.world.providers[old] = new
    model.root = new


@OPERATIONS.add(
    "switchover",
    weight=2,
    when=lambda model: bool(_heirs(model)),
    draw=lambda model, chance: {"to": chance.choice(_heirs(model))},
    more=Change(_apply_switch, fits=has_branch),
)
def switchover(model: Model, args: Args) -> list[Words]:
    if args["to"] == model.root:
        return []
    return [(model.root, ["switchover", "--to", model.called(args["to"]), "--timeout", "30"])]


def _can_be_lost(model: Model) -> bool:
    """The root's subscribers are branches: a leaf could be ahead of them and could not share it."""
    below = {n for n, up in model.world.providers.items() if up == model.root}
    complete = model.on_root() == model.everywhere()
    return bool(below) and below == set(_heirs(model)) and complete


def _apply_takeover(model: Model, args: Args) -> None:
    old, new = model.root, args["to"]
    for node, up in model.world.providers.items():
        if up == old:
            model.world.providers[node] = new
    model.world.providers[new] = None
    del model.world.providers[old]
    model.lost[old] = model.replicated.pop(old)
    model.root = new


@OPERATIONS.add(
    "takeover",
    weight=1.5,
    when=_can_be_lost,
    draw=lambda model, chance: {"to": chance.choice(_heirs(model))},
    more=Change(_apply_takeover, fits=has_branch),
)
def takeover(model: Model, args: Args) -> list[Any]:
    """The root is lost for ever, with the last transactions of applications."""
    if args["to"] == model.root:
        return []
    lost, to = model.root, args["to"]
    words = ["takeover", model.called(lost), "--failover", "--node", model.called(to)]
    return [lambda life: life.lose(lost), (to, [*words, "--timeout", "30"])]


def _apply_provider(model: Model, args: Args) -> None:
    model.world.providers[args["node"]] = args["to"]


@OPERATIONS.add(
    "change-provider",
    weight=2,
    when=lambda model: (
        any(
            model.world.providers[n] is not None
            and any(b != model.world.providers[n] for b in [model.root, *branches(model)])
            for n in model.world.leaves
        )
        and bool(branches(model))
        # A provider that keeps other rows would need another copy.
        and {n for n, _ in model.filters} <= set(model.world.leaves)
    ),
    draw=lambda model, chance: {
        "node": (node := chance.choice(list(model.world.leaves))),
        "to": chance.choice(
            [b for b in [model.root, *branches(model)] if b != model.world.providers[node]]
        ),
    },
    more=Change(_apply_provider, fits=has_branch),
)
def change_provider(model: Model, args: Args) -> list[Words]:
    node, provider = model.called(args["node"]), model.called(args["to"])
    words = ["change-provider", "--node", node, "--provider", provider, "--timeout", "30"]
    return [(args["node"], words)]
