"""Two roots whose parts of a table are merged in one leaf.

Besides the root of every world there is the root of another queue, whose leaf is in the same
database.  Both roots have a part of one table, in which another application writes all the time.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg

from tests.nemesis.cast import QUEUE, Cast
from tests.nemesis.operations.change import OPERATIONS, Args, Change, Words
from tests.nemesis.plan import Model
from tests.nemesis.stage import PART, SECOND
from tests.nemesis.worlds import MERGING, SOURCE
from tests.support.waiting import wait_for

#: Queue -> the place of its root, and that of its leaf.
PARTS = {QUEUE: ("root", "leaf"), SECOND: (SOURCE, MERGING)}


def _apply_merge(model: Model, args: Args) -> None:
    model.merged = True


@OPERATIONS.add(
    "merge",
    weight=3,
    when=lambda model: model.world.merges,
    more=Change(_apply_merge, fits=lambda world: world.merges, newer=True),
)
def merge(model: Model, args: Args) -> list[Words]:
    """The leaf gets the parts of both roots, the second time after it has lost them."""
    found: list[Words] = []
    if model.merged:
        found = [(leaf, ["remove-table", PART, "--ignore-missing"]) for _, leaf in PARTS.values()]
    return [*found, ("leaf", ["add-table", PART, "--merge-all"])]


class Parts:
    """Writes at both roots, until it is stopped."""

    def __init__(self, cast: Cast, seed: int) -> None:
        self.cast = cast
        self.written: Counter[str] = Counter()
        self._chance = random.Random(f"parts {seed}")
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="nemesis parts", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(60)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        assert self._turn.acquire(timeout=40), "a transaction on a part hangs"
        try:
            yield
        finally:
            self._turn.release()

    def _run(self) -> None:
        try:
            while not self._over.wait(0.03):
                for queue, (root, _) in PARTS.items():
                    with self._turn, contextlib.suppress(psycopg.OperationalError):
                        with psycopg.connect(
                            self.cast.places[root].dsn, connect_timeout=5, autocommit=True
                        ) as conn:
                            self._write(conn, queue)
        except BaseException as error:
            self._error = error

    def _write(self, conn: psycopg.Connection[Any], queue: str) -> None:
        for _ in range(5):
            with conn.transaction():
                for _ in range(self._chance.randint(1, 4)):
                    self._change(conn, queue)
            self.written[queue] += 1

    def _change(self, conn: psycopg.Connection[Any], queue: str) -> None:
        key, value = self._chance.randint(1, 40), f"qz7value{self._chance.randint(0, 9999)}"
        kind = self._chance.choice(["insert", "insert", "update", "delete"])
        if kind == "insert":
            conn.execute(
                f"insert into {PART} values (%s, %s, %s) on conflict do nothing",
                [queue, key, value],
            )
        elif kind == "update":
            conn.execute(f"update {PART} set v = %s where id = %s", [value, key])
        else:
            conn.execute(f"delete from {PART} where id = %s", [key])

    def check(self, life: Any, where: str) -> None:
        """The leaf has the rows of both roots, and no others."""
        assert self._error is None, f"the application of the parts has failed: {self._error!r}"
        with self.held():
            for queue, (root, leaf) in PARTS.items():
                self._arrived(life, queue, root, leaf)
            wanted: Counter[Any] = Counter()
            for root, _ in PARTS.values():
                wanted.update(self.cast.rows(root, f"select * from {PART}"))
            found = Counter(self.cast.rows("leaf", f"select * from {PART}"))
        assert found == wanted, (
            f"{where}: parts in the leaf: missing {list((wanted - found).elements())[:4]},"
            f" too many {list((found - wanted).elements())[:4]}"
        )

    def _arrived(self, life: Any, queue: str, root: str, leaf: str) -> None:
        position = (
            "select s.last_tick_id from pgq_node.local_state s join pgq_node.node_info n"
            " on n.queue_name = s.queue_name and n.worker_name = s.consumer_name"
            " where s.queue_name = %s"
        )
        states = (
            "select count(*) from londiste.table_info where queue_name = %s and table_name = %s"
            " and local and merge_state is distinct from 'ok'"
        )
        tick = 0

        def there() -> bool:
            nonlocal tick
            life.revive()
            try:
                if not tick or self.cast.value(leaf, states, queue, PART):
                    self.cast.rows(root, "select pgq.force_tick(%s)", queue)
                    made = self.cast.value(root, "select pgq.ticker(%s)", queue)
                    tick = tick or int(made or 0)
                    return False
                return int(self.cast.value(leaf, position, queue) or 0) >= tick
            except psycopg.OperationalError:
                return False

        wait_for(there, timeout=40, what=f"the parts of queue {queue} in the leaf")
