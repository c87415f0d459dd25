"""Tables with handlers, a writer for all of them, and the expected rows of each handler.

The root tells nothing to the test through the queue: a trigger of the test's own notes every
change in ``told``, in the order in which the one writer commits.  So the history of a table is
known, and of a leaf it can be said exactly what it may have: the rows as they were at some moment
of the history (the copy) and every change after it once.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import psycopg

from londiste.changes.decode import decode_all
from londiste.changes.types import RowChange
from londiste.pgq.types import Event
from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for

COLUMNS = """
    id int, at timestamptz not null, changed timestamptz not null default clock_timestamp(),
    n bigint not null, doc jsonb
"""
KEYED = f"create table {{}} ({COLUMNS}, primary key (id));"
KEYLESS = f"create table {{}} ({COLUMNS});"
#: Of the root: every version of a row has a number of its own.
ROOT = """
create sequence versions;
create table told (nr bigserial primary key, tbl text not null, op text not null,
    id int not null, n bigint not null);
create function note_told() returns trigger language plpgsql as $$
begin
    insert into told (tbl, op, id, n)
    select tg_table_name, left(tg_op, 1), (r).id, (r).n
    from (select case tg_op when 'DELETE' then old else new end as r) x;
    return new;
end $$;
"""
NOTED = "create trigger aaa_told after insert or update or delete on {} for each row"
NOTED += " execute function note_told();"
#: For a table whose rows never come into it.
NOTED_BEFORE = "create trigger aaa_told before insert on {} for each row"
NOTED_BEFORE += " execute function note_told();"
LEAF = """
create table calls (nr bigserial, tick bigint, ev bigint, at timestamptz, txid bigint, type text,
    data text, e1 text, e2 text, e3 text, e4 text);
create function public.called(text, bigint, bigint, timestamptz, bigint, integer, text, text, text,
    text, text, text) returns void language sql as
    'insert into public.calls (tick, ev, at, txid, type, data, e1, e2, e3, e4)
     values ($2, $3, $4, $5, $7, $8, $9, $10, $11, $12)';
select pgq.create_queue('split');
select pgq.register_consumer('split', 'holds its events');
"""


class Told(NamedTuple):
    """A change of a row, as the root's trigger or an event tells it; n is None for a DELETE."""

    op: str
    id: int
    n: int | None


@dataclass(frozen=True)
class Ending:
    """What a test knows when everything is written and applied.

    told -- the history of the table; added -- its length when the leaf's add-table was done.
    """

    table: str
    told: Sequence[Told]
    added: int
    root: Database
    leaf: Database


Check: TypeAlias = Callable[[Ending], None]


@dataclass(frozen=True)
class Case:
    """A table with a handler.

    check -- whether the leaf has what the handler promises.
    keys -- keys of rows are changed too; inserts -- nothing but inserts is written.
    late -- nothing is written before the leaf has the table.
    captures -- how it may be captured: names of CAPTURES; the first is that of the short form.
    equal -- compare says that root and leaf are equal; otherwise it refuses the table.
    """

    table: str
    handler: str
    options: tuple[str, ...]
    check: Check
    schema: str = KEYED
    captures: tuple[str, ...] = ("row", "statement", "logutriga", "jsontriga")
    keys: bool = False
    inserts: bool = False
    late: bool = False
    equal: bool = False
    more: tuple[str, ...] = ()

    def args(self) -> tuple[str, ...]:
        """Of add-table on the leaf."""
        given = (word for option in self.options for word in ("--handler-arg", option))
        return (self.table, "--handler", self.handler, *given, *self.more)


#: What captures a table on the root: our own forms, and those of the compatible triggers.
CAPTURES: dict[str, dict[str, str]] = {
    "row": {"form": "row"},
    "statement": {"form": "statement"},
    "logutriga": {"trigger": "logutriga"},
    "jsontriga": {"trigger": "jsontriga"},
    "sqltriga": {"trigger": "sqltriga"},
}


# -- what the leaf may have ----------------------------------------------------


def same_rows(ending: Ending, columns: str = "*", where: str = "true") -> None:
    """The rows of the root, of ``columns``, for which ``where`` is true there."""
    asked = "select x::text from (select {} from {} where {} order by id) x"
    there = ending.root.execute(asked.format(columns, ending.table, where))
    here = ending.leaf.execute(asked.format(columns, ending.table, "true"))
    assert there == here, f"{ending.table}: {sorted(set(there) ^ set(here))[:6]}"
    assert there


def a_part(ending: Ending) -> None:
    """The rows of part 0 of 2."""
    hashed = 'hashtextextended(id::text collate "C", 0) & 1'
    same_rows(ending, where=f"{hashed} = 0")
    others = f"select count(*) from {ending.table} where {hashed} = 1"
    assert ending.root.value(others) > 0


def masked(ending: Ending) -> None:
    """The rows, with a number in the place of each value inside of doc."""
    same_rows(ending, "id, at, changed, n")
    shown = "select count(*) from {} where doc ->> 'word' ~ '^secret'"
    assert ending.root.value(shown.format(ending.table)) > 0
    assert ending.leaf.value(shown.format(ending.table)) == 0
    hashed = f"select bool_and(doc is null or (doc ->> 'word') ~ '^-?\\d+$') from {ending.table}"
    assert ending.leaf.value(hashed)


def left_alone(ending: Ending) -> None:
    """The one row that was there."""
    assert ending.leaf.execute(f"select id, n from {ending.table}") == [(-1, -1)]


def nothing(ending: Ending) -> None:
    """There is no such table, and its events were really written on the root."""
    assert ending.leaf.value(f"select to_regclass('{ending.table}')") is None
    assert ending.told


def called_for_each(ending: Ending) -> None:
    """A copy of some moment, and a call for every later change, in their order."""
    calls = ending.leaf.execute(
        "select ev, at, txid, 0, type, data, e1, e2, e3, e4 from calls where e1 = %s order by nr",
        f"public.{ending.table}",
    )
    copied = ending.leaf.execute(f"select id, n from {ending.table}")
    _from_a_moment(ending, dict(copied), _events(calls))


def put_into_queue(ending: Ending) -> None:
    """Every event since the table was added, once and in order, for consumers of the queue."""
    prefix = ending.leaf.value("select queue_data_pfx from pgq.queue where queue_name = 'split'")
    events = ending.leaf.execute(
        "select ev_id, ev_time, ev_txid, 0, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3,"
        f" ev_extra4 from {prefix} where ev_extra1 = %s order by ev_id",
        f"public.{ending.table}",
    )
    heard = _events(events)
    assert 0 < len(heard) >= len(ending.told) - ending.added
    assert heard == _without_numbers(ending.told)[-len(heard) :]


def every_version(ending: Ending) -> None:
    """The versions that were there at the copy, and all later ones, each once."""
    here = Counter(ending.leaf.execute(f"select id, n from {ending.table}"))
    assert max(here.values()) == 1

    def fits(state: dict[int, int], rest: Sequence[Told]) -> bool:
        later = [(one.id, one.n) for one in rest if one.op != "D"]
        return here == Counter([*state.items(), *later])

    _some_moment(ending, fits)


def archive(part: str) -> Check:
    """What was copied or inserted later, in the partition of its time.

    part -- SQL: the end of the name of the partition that a row with ``at`` belongs to, of which
        the row is asked; '' for one that knows no better than that it is a partition.
    """

    def check(ending: Ending) -> None:
        here = Counter(ending.leaf.execute(f"select id, n from {ending.table}"))
        assert not ending.leaf.value(f"select count(*) from only {ending.table}")

        def fits(state: dict[int, int], rest: Sequence[Told]) -> bool:
            later = [(one.id, one.n) for one in rest if one.op == "I"]
            return here == Counter([*state.items(), *later])

        _some_moment(ending, fits)
        _in_its_partition(ending, part)

    return check


def latest(part: str) -> Check:
    """The rows of the root, each in the partition of its time."""

    def check(ending: Ending) -> None:
        same_rows(ending)
        _in_its_partition(ending, part)

    return check


def _in_its_partition(ending: Ending, part: str) -> None:
    if part:
        wrong = ending.leaf.execute(
            f"select tableoid::regclass::text, at from {ending.table}"
            f" where tableoid <> '{ending.table}'::regclass"
            f" and tableoid::regclass::text <> '{ending.table}' || ({part})"
        )
        assert wrong == []
    used = ending.leaf.execute(f"select distinct tableoid from {ending.table}")
    # Without a time of the row it may be one for all.
    assert len(used) > bool(part)


def _from_a_moment(ending: Ending, copied: dict[int, int], heard: Sequence[Told]) -> None:
    def fits(state: dict[int, int], rest: Sequence[Told]) -> bool:
        return state == copied and _without_numbers(rest) == heard

    _some_moment(ending, fits)


def _some_moment(ending: Ending, fits: Callable[[dict[int, int], Sequence[Told]], bool]) -> None:
    """There is a moment in the history of the table of which this is true."""
    state: dict[int, int] = {}
    for number in range(len(ending.told) + 1):
        if fits(state, ending.told[number:]):
            return
        if number < len(ending.told):
            op, id, n = ending.told[number]
            if op == "D":
                del state[id]
            else:
                assert n is not None
                state[id] = n
    raise AssertionError(f"{ending.table}: no copy and events after it come to what is here")


def _without_numbers(told: Sequence[Told]) -> list[Told]:
    return [Told(op, id, None if op == "D" else n) for op, id, n in told]


def _events(rows: Sequence[tuple[Any, ...]]) -> list[Told]:
    heard = []
    for row in rows:
        changes = list(decode_all(Event(*row)))
        assert len(changes) == 1, "it was taken apart"
        (change,) = changes
        assert isinstance(change, RowChange)
        n = None if change.op == "D" else int(str(change.image["n"]))
        heard.append(Told(str(change.op), int(str(change.image["id"])), n))
    return heard


# -- the writer ----------------------------------------------------------------


class Writer:
    """Writes on tables of cases until it is stopped; ``commits`` is what is done.

    A transaction changes some tables, each by some statements of one row or of many; every tenth
    is rolled back.
    """

    def __init__(self, database: Database, *, seed: int) -> None:
        self.database = database
        self.commits = 0
        self._cases: list[Case] = []
        self._random = random.Random(seed)
        self._next = Counter[str]()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def also(self, *cases: Case) -> None:
        """From now on these are written too."""
        with self._lock:
            self._cases += cases

    def wait(self, commits: int, seconds: float = 60.0) -> None:
        """Waits until it has committed so many more."""
        target = self.commits + commits

        def reached() -> bool:
            assert self._error is None, f"the writer has failed: {self._error!r}"
            return self.commits >= target

        wait_for(reached, timeout=seconds, what=f"{commits} transactions of the writer")

    def stop(self) -> None:
        """Ends it after its transaction."""
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive(), "the writer hangs: something of ours blocks it"
        assert self._error is None, f"the writer has failed: {self._error!r}"

    def _run(self) -> None:
        try:
            with psycopg.connect(self.database.dsn) as conn:
                while not self._stop.is_set():
                    with self._lock:
                        chosen = self._random.sample(self._cases, min(4, len(self._cases)))
                    for case in chosen:
                        for _ in range(self._random.randint(1, 3)):
                            conn.execute(self._statement(case).encode())
                    if self._random.random() < 0.1:
                        conn.rollback()
                    else:
                        conn.commit()
                        self.commits += 1
                    self._stop.wait(0.01)
        except BaseException as error:
            self._error = error

    def _statement(self, case: Case) -> str:
        kind = self._random.choice(("insert", "insert", "update", "delete", "key"))
        if kind == "insert" or case.inserts or (kind == "key" and not case.keys):
            first = self._next[case.table] + 1
            self._next[case.table] += (count := self._random.choice((1, 3, 6)))
            return (
                f"insert into {case.table} (id, at, n, doc) select i, timestamptz"
                " '2026-02-26 00:00+00' + i % 5 * interval '25 h', nextval('versions'),"
                " jsonb_build_object('word', 'secret ' || i)"
                f" from generate_series({first}, {first + count - 1}) i"
            )
        some = self._random.randint(0, 10)
        if kind == "update":
            return (
                f"update {case.table} set n = nextval('versions'), changed = clock_timestamp(),"
                f" doc = nullif(doc, doc - 'word') where id % 11 = {some}"
            )
        if kind == "key":
            return (
                f"update {case.table} set id = -id, n = nextval('versions'),"
                f" changed = clock_timestamp() where id % 37 = {some}"
            )
        return f"delete from {case.table} where id % 29 = {some}"


def history(root: Database, table: str) -> list[Told]:
    """What the trigger has noted of a table."""
    return [
        Told(*row)
        for row in root.execute("select op, id, n from told where tbl = %s order by nr", table)
    ]
