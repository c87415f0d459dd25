"""The life of a cascade: rows, ticks and batches between the steps of a command, and the end.

What happens is chosen in ``lives``.  After each of it the ledger says what every node has to hold.
In the end whatever is under way is finished by the command that the program names, and all nodes
are equal: rows, ticks, and the events between them.
"""

from __future__ import annotations

import collections
import contextlib
import random
import re
from collections.abc import Iterator

import psycopg

from londiste.cascade.switching import operation_log
from tests.fixtures.cascade import Answer
from tests.support.scenarios import ledger
from tests.support.scenarios.harness import QUEUE
from tests.support.scenarios.in_process import Killed, Place, Stage, words
from tests.support.scenarios.ledger import Ledger
from tests.support.waiting import wait_for

#: Seconds, of the clock that goes on while nobody sleeps.
LIMITS = ("--timeout", "4")
BLOCK = ("--block", "4")
#: At the end, where everything has to succeed.
PATIENT = ("--timeout", "120")
#: What finishes an operation, beside the command that the note of it says.
_FINISHING = {"resurrect": ("--undo", "--resync"), "drop-node": ()}

_STANDS = (
    "select node_type, node_name, worker_name from pgq_node.node_info",
    "select 'reads', consumer_name, provider_node, last_tick_id, paused from pgq_node.local_state",
    "select 'knows', node_name, dead, node_location from pgq_node.node_location order by 2",
    "select 'gives', subscriber_node, worker_name from pgq_node.subscriber_info order by 2",
    "select 'copies', table_name, merge_state from londiste.table_info"
    " where local and merge_state is distinct from 'ok' order by 2",
    "select 'under way', operation, node_name, new_node from pgq_node.operation",
)
NEWEST = "select max(tick_id) from pgq.tick"


def _writes(chance: random.Random) -> list[str]:
    """A transaction."""

    def some() -> int:
        return chance.randint(1, 12)

    texts = {
        "insert into public.a values ({0}, '{2}') on conflict do nothing": 4,
        "update public.a set v = v || '{2}' where id = {0}": 3,
        "update public.a set id = id + 100 where id = {0}": 1,
        "delete from public.a where id in ({0}, {1}, {0} + 100)": 1,
        "insert into public.b values ({0}, {1}, '{2}') on conflict do nothing": 4,
        "update public.b set v = '{2}', y = y where x = {0}": 2,
        "update public.b set y = y + 20 where x = {0} and y < 200": 1,
        "delete from public.b where y = {1}": 1,
        "insert into public.c (v) values ('{2}')": 4,
        "update public.c set v = null where id % 12 = {0}": 1,
        "truncate public.b": 0.2,
    }
    chosen = chance.choices(list(texts), list(texts.values()), k=chance.randint(1, 4))
    return [text.format(some(), some(), chance.randint(0, 999)) for text in chosen]


class Course:
    """One life on a stage; ``told`` counts what has happened in all of them."""

    def __init__(self, stage: Stage, told: collections.Counter[str]) -> None:
        self.stage, self.told = stage, told
        self.pending: tuple[Place, tuple[str, ...]] | None = None
        self.violation: AssertionError | None = None
        self.passes = 0
        self.fault: tuple[int, bool] | None = None
        self.names = 0

    def begin(self) -> None:
        stage = self.stage
        stage.between = lambda where: None
        stage.dies_at = None
        stage.restore()
        for exported in stage.directory.glob("lost*"):
            exported.unlink()
        self.ledger = Ledger(stage, stage.places[0])
        self.ledger.begin()
        self.log: list[str] = []

    # -- what happens meanwhile ------------------------------------------------------------

    def between(self, where: str) -> None:
        """At each step and each wait of a command; what is wrong ends it, and is told later."""
        try:
            self.happen()
        except AssertionError as error:
            self.violation = error
            raise Killed from error
        if self.fault is not None:
            self.passes += 1
            if self.passes == self.fault[0]:
                raise Killed if self.fault[1] else KeyboardInterrupt

    def happen(self) -> None:
        """Rows, ticks, batches, or nothing."""
        self.ledger.observe()
        chance = self.stage.random
        if chance.random() < 0.25:
            self.some_rows(chance)
        if chance.random() < 0.2:
            self.some_tick()
        if chance.random() < 0.2:
            self.stage.meanwhile()
        self.ledger.observe()

    def some_rows(self, chance: random.Random) -> None:
        """A transaction on the root, when it takes any."""
        root, texts = self.ledger.root, _writes(chance)
        conn = root.session()
        try:
            with conn.transaction():
                for text in texts:
                    conn.execute(text.encode())
        except psycopg.Error as error:
            # What is not there; a sequence that gives a number twice is no such error.
            ordinary = error.sqlstate == "LD102" or (
                error.sqlstate == "23505" and "c_pkey" not in str(error)
            )
            assert ordinary, f"{texts}: {error}"
            return
        self.ledger.wrote()

    def some_tick(self) -> None:
        """The root's ticker, also of one that is lost."""
        root = self.ledger.root
        root.rows("select pgq.force_tick(%s)", QUEUE)
        root.rows("select pgq.ticker()")
        self.ledger.observe()
        self.log.append(f"  tick {root.value('select max(tick_id) from pgq.tick')}")

    # -- choosing --------------------------------------------------------------------------

    def node(self, number: int, *kinds: str, cut: bool = False) -> Place | None:
        """Some node that answers, of these kinds."""
        found = [
            p
            for p in self.stage.places
            if p.name
            and p.cut is cut
            and (not kinds or ((s := ledger.look(p)) is not None and s.kind in kinds))
        ]
        return found[number % len(found)] if found else None

    def give(
        self,
        at: Place | None,
        *argv: str,
        fault: tuple[int, bool] | None = None,
        seed: int = 0,
    ) -> Answer | None:
        """A command with what happens meanwhile; None when it was interrupted."""
        if at is None:
            return None
        stage = self.stage
        stage.random.seed(seed)
        stage.between, self.passes, self.fault = self.between, 0, fault
        self.log.append(f"{at.name}: {words(argv)} {fault or ''} {seed}")
        try:
            answer = stage.command(at, *argv)
        except Killed:
            self.log.append("  killed")
            answer = None
        finally:
            stage.between = lambda where: None
        if self.violation is not None:
            raise self.violation
        if answer is not None and answer.code == 130:
            self.log.append("  Ctrl-C")
            answer = None
        if answer is None:
            self.pending = (at, argv)
            self.told[f"{argv[0]} interrupted"] += 1
        else:
            said = answer.err.strip().splitlines()
            self.log.append(
                f"  {answer.code} {' | '.join(said[-3:] if answer.code else said[-1:])}"
            )
            assert answer.code in {0, 2, 3, 6}, (argv, answer, self.log)
            assert answer.code == 0 or "hint:" in answer.err, answer
            self.told[f"{argv[0]} {answer.code}"] += 1
            if self.pending == (at, argv) and answer.code == 0:
                self.pending = None
        return answer

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """What goes wrong comes with all that has happened."""
        try:
            yield
        except Exception as error:
            what = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            told = [*self.log, *self.stands()]
            raise AssertionError(f"{what}{error}\n" + "\n".join(told)) from error

    def stands(self) -> Iterator[str]:
        """Every node: what it is, whom it knows, who reads from it."""
        for place in self.stage.places:
            if place.name:
                yield f"{place.database.name} {place.name} {place.error}"
                for statement in _STANDS:
                    yield from (f"  {row}" for row in place.rows(statement))

    # -- who is missing --------------------------------------------------------------------

    def cut(self) -> Place | None:
        return next((p for p in self.stage.places if p.cut), None)

    def away(self) -> bool:
        return bool(self.cut() or self.ledger.away or self.ledger.beyond)

    def come_back(self) -> None:
        lost = self.cut()
        assert lost is not None
        self.log.append(f"{lost.name} is back")
        self.stage.mend(lost)
        if lost in self.ledger.away and self.ledger.root is lost:
            self.ledger.found(lost)

    def take_back(
        self, at: int, choice: list[str], fault: tuple[int, bool] | None, seed: int
    ) -> Answer | None:
        (old,) = self.ledger.away
        self.names += 1
        export = str(self.stage.directory / f"lost{old.slot}.{self.names}.{seed}")
        argv = ("resurrect", "--node", old.name, "--export", export, *choice)
        answer = self.give(self.node(at), *argv, fault=fault, seed=seed)
        self.ledger.observe()
        return answer

    def notice_dropped(self) -> None:
        for place in self.stage.places:
            if place.name and ledger.look(place) is None:
                self.stage.stop_worker(place)
                place.name = ""
                for those in (self.ledger.beyond, self.ledger.away):
                    if place in those:
                        those.remove(place)

    # -- the end ---------------------------------------------------------------------------

    def must(self, at: Place | None, *argv: str, seed: int = 0) -> None:
        answer = self.give(at, *argv, seed=seed)
        assert answer is not None and answer.code == 0, f"{argv}: {answer}"

    def finish(self) -> None:
        """As the runbook has it: nodes come back, what is under way is finished, all go on."""
        cut = self.cut()
        if cut is not None:
            self.come_back()
        for place, seen in list(self.ledger.nodes()):
            if seen.paused:
                place.rows("select pgq_node.set_consumer_paused(%s, %s, false)", QUEUE, place.job)
        self.finish_what_is_under_way()
        if self.pending is not None and self.pending[1][0] == "drop-node":
            # It may be killed before it has noted anything.
            answer = self.give(self.ledger.root, *self.pending[1])
            assert answer is not None and (answer.code == 0 or "has no node" in answer.err), answer
            self.notice_dropped()
        if self.ledger.away:
            self.take_back_or_drop()
        asked = self.ledger.root
        for place in list(self.ledger.beyond):
            self.must(asked, "drop-node", place.name)
            self.notice_dropped()
        dead = [n for (n,) in asked.rows("select node_name from pgq_node.node_location where dead")]
        if dead:
            self.must(asked, "tag-alive", *dead)
        for place, seen in list(self.ledger.nodes()):
            if seen.kind != "root" and not self.is_known_above(place):
                self.take_in_again(place.name)
        for place, seen in list(self.ledger.nodes()):
            if seen.paused:
                self.must(asked, "resume", "--node", place.name, *PATIENT)
            if seen.kind != "root":
                self.copy_orphans(place)
        self.settle()
        queues = [p for p, s in self.ledger.nodes() if s.kind != "leaf"]
        self.told["events compared"] += ledger.same_events(queues)
        self.told["runs"] += 1
        self.told["roots"] += self.ledger.roots

    def is_known_above(self, place: Place) -> bool:
        """Whether what the node takes for its provider keeps events for it."""
        provider = self.provider_of(place)
        if provider is None:
            return False
        known = provider.rows("select subscriber_node from pgq_node.subscriber_info")
        return (place.name,) in known

    def copy_orphans(self, place: Place) -> None:
        """Tables that wait for their copy, and that the provider has taken off, as its log says."""
        provider = self.provider_of(place)
        kept = "select table_name from londiste.table_info where local"
        theirs = provider.rows(kept) if provider is not None else []
        for (table,) in place.rows(f"{kept} and merge_state is distinct from 'ok'"):
            if (table,) not in theirs:
                self.must(place, "resync", table, "--find-copy-node")
                self.told["orphans"] += 1

    def provider_of(self, place: Place) -> Place | None:
        """What the node takes for its provider, if it still has that name."""
        name = place.value(
            "select provider_node from pgq_node.local_state"
            " join pgq_node.node_info on worker_name = consumer_name"
        )
        return next((other for other in self.stage.places if other.name == name), None)

    def take_back_or_drop(self) -> None:
        """The lost root; who has more of it than the others, or it itself, may have to go."""
        for _ in self.stage.places:
            refused = self.take_back(0, ["--undo", "--resync"], None, 0)
            if not self.ledger.away:
                return
            assert refused is not None
            way = re.search("create it again: londiste drop-node ([a-z0-9_]+)", refused.err)
            assert way is not None, refused
            self.must(self.ledger.root, "drop-node", way[1])
            self.told["made anew"] += 1
            self.notice_dropped()
            if not self.ledger.away:
                return
        raise AssertionError(f"{self.ledger.away[0].name} is not back")

    def take_in_again(self, name: str) -> None:
        """A branch or leaf that was taken for lost goes on where it stands, or is to be made anew.

        The others have forgotten it, and its provider may be gone or be called otherwise.
        """
        root = self.ledger.root
        argv = ("change-provider", "--node", name, "--provider", root.name, "--allow-resync")
        answer = self.give(root, *argv, *PATIENT)
        assert answer is not None, argv
        if answer.code == 3 and f"which {root.name} does not have" in answer.err:
            self.must(root, "drop-node", name)
            self.notice_dropped()
        else:
            assert answer.code == 0, f"{argv}: {answer}"
            self.told["taken in again"] += 1

    def finish_what_is_under_way(self) -> None:
        """One after the other: one may be in the way of another, whose refusal says so."""
        for _ in range(6):
            notes = {}
            for place, _seen in [*self.ledger.nodes(), *((p, None) for p in self.ledger.away)]:
                noted = operation_log.find(place.session(), QUEUE)
                if noted is not None:
                    notes[place.slot] = (place, noted.command().split()[1:])
            if not notes:
                return
            answers = []
            for place, argv in notes.values():
                answers.append(self.give(place, *argv, *_FINISHING.get(argv[0], PATIENT)))
                if answers[-1] is not None and answers[-1].code == 0:
                    break
            else:
                # Its new root has lost a table meanwhile, or its new provider reads from it.
                for place, argv in notes.values():
                    answers.append(self.give(place, *argv, "--rollback"))
                    if answers[-1] is not None and answers[-1].code == 0:
                        break
                else:
                    raise AssertionError(f"{list(notes.values())}: {answers}")
            self.notice_dropped()
        raise AssertionError(f"still under way: {notes}")

    def settle(self) -> None:
        """Until every node has what the root has."""
        self.ledger.observe()
        self.some_tick()
        self.ledger.observe()

        def caught_up() -> bool:
            self.stage.meanwhile()
            if not all(in_step_or_gone(place) for place, _ in self.ledger.nodes()):
                # A copy waits for a tick behind its beginning.
                self.some_tick()
            newest = max(self.ledger.at)
            return all(
                place is self.ledger.root
                or (
                    seen.tick >= newest
                    and in_step_or_gone(place)
                    and (seen.kind == "leaf" or place.value(NEWEST) >= newest)
                )
                for place, seen in self.ledger.nodes()
            )

        try:
            wait_for(caught_up, timeout=180, what="the newest tick on every node")
        except AssertionError as error:
            stands = {p.name: (s, p.error) for p, s in self.ledger.nodes()}
            raise AssertionError(f"{error}\n{stands}") from None
        self.ledger.check()


def in_step_or_gone(place: Place) -> bool:
    """Whether no table is being copied."""
    return not place.value(
        "select count(*) from londiste.table_info where local and merge_state is distinct from 'ok'"
    )
