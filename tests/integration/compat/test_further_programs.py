"""Programs in the style of generation 2, killed with -9 in the middle: each effect is there once.

The effects are rows of a table in which the row of event ``b`` waits: there the program dies.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fixtures.cluster import Database
from tests.support.skytools.running import (
    PROGRAMS,
    Started,
    column,
    held,
    ini,
    run,
    send,
    tick,
    wait_in_the_middle,
)
from tests.support.suite.slow import only
from tests.support.waiting import wait_for

QUEUE = "q"
ABC = (("t", "a"), ("t", "b"), ("t", "c"))


@dataclass(frozen=True)
class Case:
    """What a program gets, and the effects that it must have.

    early -- rounds of retries before the one in which it is killed; late -- those after it.
    target -- the setting of the database with the effects.
    also -- a statement there, and its only value.
    """

    expected: list[str]
    events: tuple[tuple[str, ...], ...] = ABC
    target: str = "src_db"
    early: int = 0
    late: int = 0
    keys: Mapping[str, object] = field(default_factory=dict)
    setup: str = ""
    also: tuple[str, object] | None = None


LOOP = {"loop_delay": 0.05, "exception_sleep": 0.1}
NOWHERE = "host=127.0.0.1 port=1 dbname=nowhere connect_timeout=2"
MARKS = "select count(*) from pgq_ext.completed_{}"
FAILED = "select ev_failed_reason from pgq.failed_event_list('q', 'job')"
RETRIES = "select count(*) from pgq.retry_queue"
NODE = (
    "select pgq_node.register_location('q', 'root', '{src}', false);"
    "select pgq_node.create_node('q', 'root', 'root', 'w', null, null, null)"
)
ROWS = (
    "create table rows (id int primary key, data text); create trigger rows_trg after insert or"
    " update or delete on rows for each row execute function pgq.logutriga('q')"
)
CHANGES = (
    "insert into rows values (1, 'a'), (2, 'x'), (3, 'it''s \\'); update rows set data = 'b' where"
    " id = 2; delete from rows where id = 1; insert into rows values (4, null)"
)
CASES = {
    "further/audit": Case(["t:a", "t:b", "t:c"]),
    "further/batch_audit": Case(["a", "b", "c"]),
    "further/retry_once": Case(["a", "b", "c"], early=1, keys={"retry_delay": 5}),
    "further/retry_failing": Case(["a", "b", "c"], late=1, also=(RETRIES, 0)),
    "further/never_tagged": Case(
        ["a", "b", "b1", "b2"], (("t", "a"), ("forgotten", "b")), late=2, also=(RETRIES, 1)
    ),
    "further/failed_events": Case(
        ["a 2", "b 3"],
        (("t", "a", "1"), ("t", "x", "one"), ("t", "b", "2")),
        also=(
            "select ev_failed_reason from pgq.failed_event_list('q', 'job')",
            "no number: extra1",
        ),
    ),
    "further/generation3": Case(["a", "b", "c"], also=(RETRIES, 0)),
    "further/two_databases": Case(
        ["aA", "bB", "cC"], target="dst_db", also=(MARKS.format("batch"), 1)
    ),
    "further/remote_retry": Case(
        ["a", "b", "c"], (("t", "a"), ("t", "b"), ("later", "c")), target="dst_db", late=1
    ),
    "further/serial_log": Case(["a", "b", "c"], target="dst_db", also=(MARKS.format("tick"), 1)),
    "further/own_marks": Case(["a", "b", "c"], target="dst_db"),
    "further/failing_connection": Case(["a", "b", "c"], target="dst_db", keys=LOOP),
    "further/other_server": Case(
        ["a unknown", "b unknown", "c unknown"], keys={"lookup_db": NOWHERE}
    ),
    "further/sighup": Case(["newa", "newb", "newc"], keys={**LOOP, "prefix": "old"}),
    "further/log_size": Case(["a", "b", "c"], keys={"log_size": 1500, "log_count": 2}),
    "further/coop": Case(["a", "b", "c"], keys={"subconsumer_name": "one"}),
    "further/lazy": Case(["a", "b", "c"], keys={"pgq_lazy_fetch": 2}, also=(RETRIES, 0)),
    "further/fan_out": Case(
        ["a", "b", "c"],
        also=("select count(*) from pgq.event_template", 3 + 3 + 1),
    ),
    "further/row_copier": Case(
        ["2 b", "3 it's \\", "4 -"],
        (),
        target="dst_db",
        keys={"dst_table": "effects"},
        setup=ROWS,
    ),
    "further/plain_sql": Case(["a", "b", "c"]),
    "cascaded": Case(["a!", "b!", "c!"], setup=NODE),
    "table_mover": Case(
        ["a", "b", "c"],
        (),
        target="dst_db",
        setup="create table outbox (id int primary key, data text)",
    ),
}

#: One of each kind of marks; the others are in the slow run.
QUICK = (
    "further/batch_audit",
    "further/retry_failing",
    "further/two_databases",
    "further/serial_log",
    "further/own_marks",
    "further/coop",
    "cascaded",
    "table_mover",
)


def test_every_program_has_a_case() -> None:
    written = {f"further/{path.stem}" for path in (PROGRAMS / "further").glob("*.py")}
    assert written == {name for name in CASES if name.startswith("further/")}
    assert len(CASES) >= 20


@pytest.mark.parametrize("name", only(CASES, *QUICK))
def test_a_program_that_is_killed_has_each_effect_once(
    pgq_db: Database, new_database: Callable[..., Database], tmp_path: Path, name: str
) -> None:
    case, program = CASES[name], f"{name}.py"
    other = new_database(pgq=True)
    target = pgq_db if case.target == "src_db" else other
    pgq_db.execute("select pgq.create_queue('q')")
    if case.setup:
        pgq_db.execute(case.setup.replace("{src}", pgq_db.dsn))
    target.execute("create table effects (data text, id int)")
    wait_in_the_middle(target, "effects", "new.data like '%b%'")
    conf = ini(
        tmp_path,
        name.rpartition("/")[2],
        **{
            "job_name": "job",
            "src_db": pgq_db.dsn,
            "dst_db": other.dsn,
            "pgq_queue_name": QUEUE,
            "loop_delay": 0,
            "logfile": f"{tmp_path}/%(job_name)s.log",
            **case.keys,
        },
    )

    def retry() -> None:
        pgq_db.execute("update pgq.retry_queue set ev_retry_after = now() - interval '1 second'")
        pgq_db.execute("select pgq.maint_retry_events()")
        tick(pgq_db, QUEUE)

    # A program registers at its start, and ends where nothing is to do.
    run(program, conf, *(["--register"] if "exception_sleep" in case.keys else []))
    if name == "further/row_copier":
        pgq_db.execute(CHANGES)
    if name == "table_mover":
        pgq_db.execute("insert into outbox values (1, 'a'), (2, 'b'), (3, 'c')")
    send(pgq_db, QUEUE, *case.events)
    for _ in range(case.early):
        run(program, conf)
        retry()
    with held(target):
        started = Started(program, conf)
        if name == "further/sighup":
            wait_for(lambda: "the prefix is old" in started.text, what="its first round")
            Path(conf).write_text(Path(conf).read_text().replace("prefix = old", "prefix = new"))
            started.signal(signal.SIGHUP)
        started.kill_while_waiting(target)
    text = run(program, conf)
    for _ in range(case.late):
        retry()
        run(program, conf)
    shown = "concat_ws(' ', id, coalesce(data, '-'))" if name == "further/row_copier" else "data"
    assert column(target, f"select {shown} from effects order by 1") == case.expected, text
    if case.also is not None:
        assert target.value(case.also[0]) == case.also[1]
    if name == "further/log_size":
        logs = list(tmp_path.glob("job.log*"))
        assert {log.name for log in logs} == {"job.log", "job.log.1", "job.log.2"}
        assert all(log.stat().st_size <= 1500 for log in logs)
    # Started once more, a program finds nothing to do.
    if "exception_sleep" not in case.keys:
        run(program, conf)
        assert len(target.execute("select 1 from effects")) == len(case.expected)
