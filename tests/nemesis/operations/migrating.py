"""A database migrates to an empty server, and back, until the migration is finished or abandoned.

Besides the application of every life, another one tries both databases all the time: it shows
which one takes writes, and when.
"""

from __future__ import annotations

import json
import signal
from typing import Any

from tests.nemesis import validators
from tests.nemesis.cast import Cast
from tests.nemesis.operations.change import OPERATIONS, Args, Change
from tests.nemesis.plan import Model
from tests.nemesis.worlds import World
from tests.support.scenarios import writer_on_every_node
from tests.support.scenarios.forks import Fork
from tests.support.scenarios.killed_migration import CAPTURED
from tests.support.scenarios.writer_on_every_node import Everywhere
from tests.support.waiting import wait_for

#: What only a migration has: the rows of the other application, and a sequence that nobody uses.
_SCHEMA = """
create table public.written (node text, n bigint, at text, primary key (node, n));
create sequence nemesis.unused start 7
"""
_UNUSED = "select last_value, is_called from nemesis.unused"
_SETTINGS = ["--block", "60"]
_LEFT = {
    "a schema of ours": "select nspname from pg_namespace"
    " where nspname in ('pgq', 'pgq_ext', 'pgq_coop', 'pgq_node', 'londiste')",
    "a trigger of ours": "select tgrelid::regclass, tgname from pg_trigger t"
    " join pg_proc p on p.oid = t.tgfoid where not tgisinternal"
    " and pronamespace::regnamespace::text not in ('nemesis', 'public')",
    **{
        what: statement
        for what, statement in validators.LEFT.items()
        if "londiste." not in statement and "pgq_node." not in statement
    },
}


def _migrates(world: World) -> bool:
    return world.migrates


def _root(model: Model, node: str) -> None:
    model.root = node
    model.world.providers = {n: None if n == node else node for n in ("old", "new")}


def _apply_begin(model: Model, args: Args) -> None:
    model.migration = "in step"
    if args["how"] == "run --switch":
        _root(model, "new")


@OPERATIONS.add(
    "migrate",
    when=lambda model: model.migration == "not begun",
    draw=lambda model, chance: {
        "how": chance.choice(["start", "own daemons", "own daemons", "run", "run --switch"]),
        "schema": chance.choice(["pg_dump", "create"]),
    },
    more=Change(_apply_begin, fits=_migrates, migrates=True),
)
def migrate(model: Model, args: Args) -> list[Any]:
    """Set up, copy, and keep both in step; with one command also the switch."""
    how, schema = args["how"], ["--schema", args["schema"]]
    if how == "own daemons":
        return [
            ("old", ["migrate", "start", "--no-daemons", *schema]),
            lambda life: life.migration.own_daemons(life),
            lambda life: life.migration.begun(life),
        ]
    if how == "start":
        return [
            ("old", ["migrate", "start", "--until-ready", *schema]),
            lambda life: life.stays("start"),
            lambda life: life.migration.begun(life),
        ]
    words = [*how.split(), *schema, *_SETTINGS]
    phase = "switched" if "--switch" in words else "in step"
    return [
        lambda life: life.stays(*words),
        lambda life: life.migration.reached(life, phase),
        lambda life: life.migration.begun(life),
    ]


def _switches(name: str, node: str, words: list[str]) -> None:
    """An operation that makes a database the one that takes writes."""
    other = "old" if node == "new" else "new"

    @OPERATIONS.add(
        name,
        weight=3,
        when=lambda model: model.migration == "in step" and model.root == other,
        draw=lambda model, chance: {"undo": chance.random() < 0.2},
        more=Change(
            lambda model, args: _root(model, node),
            fits=_migrates,
            newer=True,
            migrates=True,
            after="migrate" if node == "new" else "migrate switch",
        ),
    )
    def switch(model: Model, args: Args) -> list[Any]:
        todo: list[Any] = [
            ("old", [*words, *_SETTINGS]),
            lambda life: life.migration.moved(life, node),
        ]
        return [lambda life: life.migration.undone(life, words), *todo] if args["undo"] else todo


_switches("migrate switch", "new", ["migrate", "switch"])
_switches("migrate back", "old", ["migrate", "back"])


@OPERATIONS.add(
    "migrate verify",
    when=lambda model: model.migration == "in step",
    more=Change(fits=_migrates, newer=True, migrates=True, after="migrate"),
)
def verify(model: Model, args: Args) -> list[Any]:
    """Rows and structure are equal, and the status says where the migration is."""
    return [("old", ["migrate", "verify"]), ("old", ["migrate", "status", "--json"])]


def _apply_end(model: Model, args: Args) -> None:
    model.migration = "over"


@OPERATIONS.add(
    "migrate finish",
    when=lambda model: model.migration == "in step" and model.root == "new",
    more=Change(_apply_end, fits=_migrates, newer=True, migrates=True, after="migrate switch"),
)
def finish(model: Model, args: Args) -> list[Any]:
    """Both databases are independent; applications go on in the new one."""
    return _end("finish")


@OPERATIONS.add(
    "migrate abandon",
    when=lambda model: model.migration == "in step" and model.root == "old",
    more=Change(_apply_end, fits=_migrates, newer=True, migrates=True, after="migrate"),
)
def abandon(model: Model, args: Args) -> list[Any]:
    """The old database is as before."""
    return _end("finish", "--abandon")


def _end(*words: str) -> list[Any]:
    # An application of one thread keeps a transaction open while its next one waits for a lock.
    words = ("--set", "lock_timeout=60", "migrate", *words)
    return [
        lambda life: life.migration.ending(life),
        ("old", list(words)),
        lambda life: life.migration.over(life),
    ]


class Migration:
    """What is known of the migration of one life."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        databases = {name: place.database for name, place in cast.places.items()}
        self._everywhere = Everywhere(databases, pause=0.05, once={"new": CAPTURED})
        #: Who took writes, in this order.
        self._roots = ["old"]
        self._stopped = False
        self._structure: set[tuple[Any, ...]] = set()

    def start(self) -> None:
        self.cast.rows("old", _SCHEMA)
        self._structure = validators.structure(self.cast, "old")
        self._everywhere.__enter__()

    def stop(self) -> None:
        """Also of a life that fails."""
        if not self._stopped:
            self._stopped = True
            self._everywhere.stop()

    # -- steps -----------------------------------------------------------------------------

    def own_daemons(self, life: Any) -> None:
        self.cast.start_all()

    def reached(self, life: Any, phase: str) -> None:
        """Waits until the command that stays has got there."""

        def there() -> bool:
            life.revive()
            life.pass_time(0.5)
            fork = self.cast.command("old", "migrate", "status", "--json")
            return fork.wait(60) == 0 and json.loads(fork.out)["phase"] == phase

        wait_for(there, timeout=2 * validators.CONVERGES, what=f"phase {phase}")
        # Begun again, it only keeps both in step: after ``back`` it would switch once more.
        self.cast.moving = ["start"]
        if phase == "switched":
            self.moved(life, "new")

    def begun(self, life: Any) -> None:
        """Both are nodes, and are watched from now on."""
        if self.cast.more.get("rotate"):
            self.cast.rotate()
        for node in ("old", "new"):
            life.joined(node)

    def undone(self, life: Any, words: list[str]) -> None:
        """A switch that ends at a random step is undone, where that is still possible."""
        step = str(1 + life.plan.life % 9)
        crash = {"LONDISTE_CRASH": f"plan.before-step:{step}"}
        life.note(f"old: londiste {' '.join(words)} [killed before step {step}], --rollback")
        self.cast.command("old", *words, *_SETTINGS, **crash).wait(100)
        fork = life.run("old", *words, "--rollback")
        if fork.code() != 0:
            validators.refusal(fork)
            assert fork.code() == 3, str(fork)
        life.note(f"  {fork.code()}: {fork.err.strip()[-200:]}")

    def moved(self, life: Any, node: str) -> None:
        """Another database takes writes, and no other one since."""
        self._roots.append(node)
        life.another_root(lambda: _root(life.model, node))
        self._everywhere.wait(1, on=node)
        self._one_root()

    def _one_root(self) -> None:
        found = self._everywhere.history()
        assert found == self._roots, f"writes were taken by {found} instead of {self._roots}"

    # -- the end ---------------------------------------------------------------------------

    def ending(self, life: Any) -> None:
        """Before both are independent again: no row was lost, none came twice, all is equal."""
        fork = life.run("old", "migrate", "verify", "--json")
        assert fork.code() == 0 and json.loads(fork.out)["equal"], f"verify does not agree: {fork}"
        self._one_root()
        self.stop()
        with life.writer.held():
            validators.settle(life, "before the end")
            for name in ("old", "new"):
                self._complete(name)
                # The published values are ahead until the first switch.
                unused = self.cast.rows(name, _UNUSED)
                assert unused == [(7, False)] or name not in self._roots, f"{name}: {unused}"
        for watcher in life.watchers:
            watcher.check()
            watcher.stop()
        self.cast.ending = True
        # The command that stays ends by itself; own daemons are stopped by who has started them.
        for name, fork in self.cast.daemons().items():
            if name != "mover":
                self._ended(name, fork)

    def _complete(self, name: str) -> None:
        """A database has what the other application has written into any."""
        found = writer_on_every_node.rows(self.cast.places[name].database)
        confirmed = self._everywhere.confirmed()
        lost, more = confirmed - set(found), set(found) - confirmed - self._everywhere.unknown()
        assert not lost, f"{name} has lost {sorted(lost)[:5]}"
        assert not more and len(found) == len(set(found)), f"{name}: too many: {sorted(more)[:5]}"

    def over(self, life: Any) -> None:
        """Applications have met nothing; the daemons end."""
        life.pass_time(0.2)
        if self.cast.mover is not None:
            code = self.cast.mover.wait(60)
            assert code in (0, -9), str(self.cast.mover)

    def _ended(self, name: str, fork: Fork) -> None:
        fork.send(signal.SIGTERM)
        code = fork.wait(30)
        # By the signal: it has just begun.
        assert code in (0, -9) or (code == -15 and not fork.err), (
            f"{name} ended with {code} when told to: {fork.err[-1500:]}"
        )

    def end(self, life: Any) -> None:
        """The migration is ended, if it is not; nothing is left of it."""
        model = life.model
        if model.migration == "in step":
            kind = OPERATIONS["migrate finish" if model.root == "new" else "migrate abandon"]
            for todo in kind.run(model, {}):
                todo(life) if callable(todo) else life.command(todo[0], *todo[1])
            kind.more.apply(model, {})
        life.writer.stop()
        assert not life.writer.wrong, life.writer.wrong[:3]
        nodes = ("old", "new") if model.migration == "over" else ()
        for node in nodes:
            validators.nothing_left(self.cast, node, _LEFT)
            missing = self._structure - validators.structure(self.cast, node)
            assert not missing, f"lost on {node}: {missing}"
        validators.outputs(self.cast)
