"""The return of a lost root: applications still reach it, it is fenced, and becomes a branch.

What is lost is known by plain SQL, before any command runs: the transactions of the old root that
the last tick of another node does not see, and those that it has accepted since its return.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.nemesis import validators
from tests.nemesis.cast import QUEUE, TICKS, Cast
from tests.nemesis.operations.change import OPERATIONS, Args, Change, has_branch
from tests.nemesis.plan import Model
from tests.nemesis.writer import Writer
from tests.support.waiting import wait_for

PAUSE = f"update pgq.queue set queue_ticker_paused = %s where queue_name = '{QUEUE}'"
_CLOSED = f"select queue_disable_insert from pgq.queue where queue_name = '{QUEUE}'"
_LEDGER = "select n from nemesis.ledger"
#: The ticks of a lost root, each with the transactions that it sees.
_SEEN = f"""
select t.tick_id, array_remove(array_agg(l.n), null) from {TICKS} t left join nemesis.ledger l
on l.era < %s or txid_visible_in_snapshot(l.txid, t.tick_snapshot)
where t.tick_id >= %s
group by t.tick_id order by t.tick_id
"""
#: A row of the ledger in an export.
_INSERTED = re.compile(r'^insert into "nemesis"\."ledger" \([^)]*\) .*values \(E\'(\d+)\'', re.M)
#: Numbers of transactions that are tried on a root which is no longer one.
_STRAY = 1_000_000


def _ledger(cast: Cast, node: str) -> set[int]:
    return {n for (n,) in cast.rows(node, _LEDGER)}


class Loss:
    """A root that nobody reaches any more.

    seen -- the newest tick that another node had when it was lost.
    era -- that of its last transactions.
    """

    def __init__(self, cast: Cast, node: str, branches: list[str], era: int) -> None:
        self.node, self.era = node, era
        newest = f"select coalesce(max(tick_id), 0) from {TICKS} t"
        self.seen = max((int(cast.value(b, newest)) for b in branches), default=0)
        #: Transactions of the old root alone.
        self.gone: set[int] = set()
        self.kept: set[int] = set()

    def measure(self, cast: Cast, root: str) -> None:
        """AssertionError unless the present root has what one of the old ticks sees, exactly."""
        old = _ledger(cast, self.node)
        self.kept = old & _ledger(cast, root)
        ticks = {t: set(seen) for t, seen in cast.rows(self.node, _SEEN, self.era, self.seen)}
        assert self.kept in ticks.values(), (
            f"{root} has taken over at no tick of {self.node}: of ticks {sorted(ticks)} the last"
            f" sees {sorted(max(ticks.values(), key=len, default=set()) ^ self.kept)[:5]} otherwise"
        )


def _apply_return(model: Model, args: Args) -> None:
    node = args["lost"]
    del model.lost[node]
    model.world.providers[node] = model.root
    model.replicated[node] = set(model.replicated[model.root])


@OPERATIONS.add(
    "return",
    weight=10,
    when=lambda model: bool(model.lost),
    draw=lambda model, chance: {
        "lost": chance.choice(list(model.lost)),
        "how": chance.choice(["--resync", "--undo --resync"]),
        "crash": chance.random() < 0.5,
        "number": model.count("return"),
    },
    more=Change(_apply_return, fits=has_branch, newer=True, after="takeover"),
)
def come_back(model: Model, args: Args) -> list[Any]:
    """The old root is back with its applications; it is closed, and rejoins as a branch."""
    node = args["lost"]
    export = f"lost{args['number']}"
    words = ["resurrect", "--node", model.called(node), *args["how"].split()]
    missing = sorted(model.replicated[model.root] - model.lost[node])

    def rejoined(life: Any) -> None:
        _rejoined(life, node, life.cast.directory / f"{export}.sql")
        if missing:
            names = [model.table(number).name for number in missing]
            life.command(node, "wait-root", "--timeout", "40")
            life.command(node, "add-table", *names)

    return [
        lambda life: _back(life, node, crash=args["crash"]),
        (model.root, [*words, "--export", f"{{directory}}/{export}"]),
        rejoined,
    ]


def _back(life: Any, node: str, *, crash: bool) -> None:
    """The database is there, applications write into it, and its worker starts."""
    cast: Cast = life.cast
    loss: Loss = life.losses[node]
    place = cast.places[node]
    server = place.database.cluster
    alone = all(cast.places[n].database.cluster is not server for n in life.model.world.providers)
    if crash and alone:
        server.stop("immediate")
        server.up()
    cast.open_database(node)
    loss.measure(cast, life.model.root)
    stray = Writer(lambda: place.dsn, life.plan.life, life.plan.work, life.plan.more["pause"])
    stray.first(_STRAY * (1 + len(life.losses)), loss.era)
    stray.tables = life.model.tables
    stray.allowed = {"LD100", "LD101", "LD102", "57P01", "55000"}
    stray.start()
    try:
        life.pass_time(0.3)
        assert not stray.ends["LD102"], f"{node} is closed before it knows of its successor"
        cast.rows(node, PAUSE, False)
        cast.start_worker(node)
        wait_for(
            lambda: life.revive() or (cast.value(node, _CLOSED) and stray.ends["LD102"]),
            timeout=validators.CONVERGES,
            what=f"the fence of {node}, which is no root any more: {stray.ends}",
        )
        with stray.held():
            before = _ledger(cast, node)
        life.pass_time(0.3)
    finally:
        stray.stop()
    after = _ledger(cast, node)
    assert after == before, f"{node} has accepted {sorted(after - before)[:5]} behind its fence"
    assert not stray.wrong, stray.wrong[:3]
    loss.gone = after - loss.kept
    life.note(f"  only {node} has {len(loss.gone)} transactions")
    _named(life, node)


def _named(life: Any, node: str) -> None:
    """``status`` says at the old root and at the present one that it has been replaced."""
    model: Model = life.model
    words = f"root {model.called(node)} of queue {QUEUE} was replaced by {model.called(model.root)}"

    def named(at: str) -> bool:
        fork = life.run(at, "status", "--json")
        assert fork.code() == 0, str(fork)
        return words in fork.out

    for at in (node, model.root):
        wait_for(lambda at=at: named(at), timeout=20, what=f"a status at {at}: {words}")


def _rejoined(life: Any, node: str, export: Path) -> None:
    """The export has what the old root had alone, and the present root has none of it."""
    loss: Loss = life.losses.pop(node)
    exported = _exported(export) if export.exists() else set()
    assert exported == loss.gone, (
        f"lost with {node}, and not exported: {sorted(loss.gone - exported)[:5]};"
        f" exported, and not lost: {sorted(exported - loss.gone)[:5]}"
    )
    back = loss.gone & _ledger(life.cast, life.model.root)
    assert not back, f"transactions that were lost with {node} came back: {sorted(back)[:5]}"
    life.joined(node)


def _exported(path: Path) -> set[int]:
    """Transactions whose row of the ledger is in an export."""
    return {int(n) for n in _INSERTED.findall(path.read_text(encoding="utf-8"))}
