"""Programs in the style of generation 2, in this process: tags, failures, registration."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from londiste.compat import pgq
from tests.fixtures.cluster import Database
from tests.support.skytools.running import column, ini, send, tick

QUEUE = "q"


@pytest.fixture
def db(pgq_db: Database) -> Database:
    pgq_db.execute("select pgq.create_queue('q'); create table seen (data text)")
    return pgq_db


@pytest.fixture
def conf(db: Database, tmp_path: Path) -> Callable[..., list[str]]:
    """A settings file for a program, with ``loop_delay = 0`` unless another one is given."""

    def make(section: str = "job", **keys: object) -> list[str]:
        given = {"src_db": db.dsn, "pgq_queue_name": QUEUE, "loop_delay": 0, **keys}
        return [ini(tmp_path, section, **given)]

    return make


def retries(db: Database) -> list[tuple[Any, ...]]:
    return db.execute(
        "select ev_data, round(extract(epoch from ev_retry_after - now()) / 10) * 10"
        " from pgq.retry_queue order by ev_id"
    )


class Storing(pgq.Consumer):
    """Writes the events of its queue into a table."""

    def __init__(self, args: list[str]) -> None:
        pgq.Consumer.__init__(self, "job", "src_db", args)

    def process_event(self, db: Any, ev: Any) -> None:
        db.cursor().execute("insert into seen values (%s)", [ev.data])
        ev.tag_done()


def test_an_event_without_a_tag_comes_again_and_is_then_done(
    db: Database, conf: Callable[..., list[str]]
) -> None:
    class Forgetful(Storing):
        forgets = True

        def process_event(self, db: Any, ev: Any) -> None:
            if ev.ev_data == "b" and self.forgets:
                return
            Storing.process_event(self, db, ev)

    Forgetful(conf()).start()
    send(db, QUEUE, ("t", "a"), ("t", "b"), ("t", "c"))
    Forgetful(conf()).start()
    assert column(db, "select data from seen") == ["a", "c"]
    assert retries(db) == [("b", 60)]
    db.execute("update pgq.retry_queue set ev_retry_after = now() - interval '1 second'")
    db.execute("select pgq.maint_retry_events()")
    tick(db, QUEUE)
    Forgetful.forgets = False
    Forgetful(conf()).start()
    assert column(db, "select data from seen") == ["a", "c", "b"]
    assert retries(db) == []


def test_an_event_that_is_never_tagged_comes_again_each_time(
    db: Database, conf: Callable[..., list[str]]
) -> None:
    class Never(Storing):
        def process_event(self, db: Any, ev: Any) -> None:
            db.cursor().execute("insert into seen values (%s)", [str(ev.ev_retry)])

    Never(conf()).start()
    send(db, QUEUE, ("t", "a"))
    for _ in range(3):
        Never(conf()).start()
        db.execute("update pgq.retry_queue set ev_retry_after = now() - interval '1 second'")
        db.execute("select pgq.maint_retry_events()")
        tick(db, QUEUE)
    assert column(db, "select data from seen") == ["None", "1", "2"]


def test_untagged_events_are_done_where_the_program_is_of_generation_3(
    db: Database, conf: Callable[..., list[str]]
) -> None:
    class Modern(Storing):
        def process_batch(self, db: Any, batch_id: int, ev_list: Any) -> None:
            db.cursor().execute("insert into seen values (%s)", [str(len(ev_list))])

    Modern(conf(untagged_events="done")).start()
    send(db, QUEUE, ("t", "a"), ("t", "b"))
    Modern(conf(untagged_events="done")).start()
    assert (column(db, "select data from seen"), retries(db)) == (["2"], [])


def test_events_are_retried_after_their_seconds_and_failed_ones_are_kept(
    db: Database, conf: Callable[..., list[str]]
) -> None:
    class Sorting(Storing):
        def process_event(self, db: Any, ev: Any) -> None:
            if ev.ev_type == "retry":
                ev.tag_retry(300)
            elif ev.ev_type == "fail":
                ev.tag_failed("no such user")
            else:
                ev.tag_done()

    Sorting(conf()).start()
    send(db, QUEUE, ("retry", "a"), ("fail", "b"), ("ok", "c"))
    Sorting(conf()).start()
    assert retries(db) == [("a", 300)]
    assert db.execute(
        "select ev_data, ev_failed_reason from pgq.failed_event_list('q', 'job')"
    ) == [("b", "no such user")]


def test_a_failure_rolls_the_batch_back_and_repeats_it(
    db: Database, conf: Callable[..., list[str]]
) -> None:
    class Failing(Storing):
        calls = 0

        def process_batch(self, db: Any, batch_id: int, ev_list: Any) -> None:
            pgq.Consumer.process_batch(self, db, batch_id, ev_list)
            Failing.calls += 1
            if self.calls < 3:
                raise ValueError("not yet")
            self.stop()

    Failing(conf()).start()
    send(db, QUEUE, ("t", "a"), ("t", "b"))
    Failing(conf(loop_delay=0.1, exception_sleep=0.1)).start()
    assert Failing.calls == 3
    assert column(db, "select data from seen") == ["a", "b"]


def test_without_a_loop_a_failure_ends_the_program(
    db: Database, conf: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing(Storing):
        def process_event(self, db: Any, ev: Any) -> None:
            Storing.process_event(self, db, ev)
            db.cursor().execute("select 1 / 0")

    Failing(conf()).start()
    send(db, QUEUE, ("t", "a"))
    with pytest.raises(SystemExit) as ended:
        Failing(conf()).start()
    assert ended.value.code == 6
    assert "error: job: DivisionByZero: division by zero" in capsys.readouterr().err
    assert column(db, "select data from seen") == []
    # The batch is still there for the next start.
    Storing(conf()).start()
    assert column(db, "select data from seen") == ["a"]


def test_what_a_program_commits_stays_when_its_batch_fails(
    db: Database, conf: Callable[..., list[str]]
) -> None:
    class Committing(Storing):
        def process_batch(self, db: Any, batch_id: int, ev_list: Any) -> None:
            curs = db.cursor()
            curs.execute("insert into seen values ('committed')")
            db.commit()
            curs = db.cursor()
            curs.execute("insert into seen values ('rolled back')")
            db.rollback()
            db.cursor().execute("insert into seen values ('lost')")
            raise ValueError

    Committing(conf()).start()
    send(db, QUEUE, ("t", "a"))
    with pytest.raises(SystemExit):
        Committing(conf()).start()
    assert column(db, "select data from seen") == ["committed"]


def test_the_consumer_is_registered_at_its_start_and_by_the_option(
    db: Database, conf: Callable[..., list[str]]
) -> None:
    send(db, QUEUE, ("t", "before"))
    Storing(conf()).start()
    assert column(db, "select consumer_name from pgq.get_consumer_info()") == ["job"]
    send(db, QUEUE, ("t", "after"))
    Storing(conf()).start()
    assert column(db, "select data from seen") == ["after"]
    Storing([*conf(), "--unregister"]).start()
    assert column(db, "select consumer_name from pgq.get_consumer_info()") == []
    Storing(["--register", *conf()]).start()
    assert column(db, "select consumer_name from pgq.get_consumer_info()") == ["job"]


def test_a_serial_consumer_retries_nothing(
    db: Database, new_database: Callable[..., Database], conf: Callable[..., list[str]]
) -> None:
    class Serial(pgq.SerialConsumer):
        retry = False

        def __init__(self, args: list[str]) -> None:
            pgq.SerialConsumer.__init__(self, "job", "src_db", "dst_db", args)

        def process_remote_batch(self, db: Any, batch_id: int, ev_list: Any, dst_db: Any) -> None:
            for ev in ev_list:
                dst_db.cursor().execute("insert into seen values (%s)", [ev.data])
                if self.retry:
                    ev.tag_retry()

    other = new_database(pgq=True)
    other.execute("create table seen (data text)")
    args = conf(dst_db=other.dsn)
    Serial(args).start()
    send(db, QUEUE, ("t", "a"))
    Serial.retry = True
    with pytest.raises(SystemExit) as ended:
        Serial(args).start()
    assert ended.value.code == 6
    Serial.retry = False
    Serial(args).start()
    assert column(other, "select data from seen") == ["a"]
    assert other.value("select last_tick_id from pgq_ext.completed_tick") is not None


def test_a_remote_consumer_commits_to_the_source_when_the_batch_is_done(
    db: Database, new_database: Callable[..., Database], conf: Callable[..., list[str]]
) -> None:
    class Both(pgq.RemoteConsumer):
        fails = True

        def __init__(self, args: list[str]) -> None:
            pgq.RemoteConsumer.__init__(self, "job", "src_db", "dst_db", args)

        def process_remote_batch(self, db: Any, batch_id: int, ev_list: Any, dst_db: Any) -> None:
            for ev in ev_list:
                db.cursor().execute("insert into seen values (%s)", [ev.data])
                dst_db.cursor().execute("insert into seen values (%s)", [ev.data])
                ev.tag_done()
            assert self.get_database("dst_db") is dst_db
            if self.fails:
                Both.fails = self.loop_delay == 0
                raise OSError("no network")
            self.stop()

    other = new_database(pgq=True)
    other.execute("create table seen (data text)")
    args = conf(dst_db=other.dsn)
    Both(args).start()
    send(db, QUEUE, ("t", "a"), ("t", "b"))
    with pytest.raises(SystemExit):
        Both(args).start()
    assert column(db, "select data from seen") == column(other, "select data from seen") == []
    # In one process: what the failed attempt has written to the source is gone, too.
    Both(conf(dst_db=other.dsn, loop_delay=0.1, exception_sleep=0.1)).start()
    assert column(db, "select data from seen") == ["a", "b"]
    assert column(other, "select data from seen") == ["a", "b"]


def test_the_time_zone_in_a_batch_is_that_of_the_database(
    db: Database, conf: Callable[..., list[str]]
) -> None:
    class Zone(Storing):
        def process_event(self, db: Any, ev: Any) -> None:
            for end in (db.commit, db.rollback, ev.tag_done):
                db.cursor().execute("insert into seen select current_setting('timezone')")
                end()

    db.execute(f"alter database {db.name} set timezone = 'Asia/Kathmandu'")
    Storing(conf()).start()
    send(db, QUEUE, ("t", "a"))
    Zone(conf()).start()
    assert column(db, "select data from seen") == ["Asia/Kathmandu"] * 2


def test_connections_of_a_batch_end_with_it(db: Database, conf: Callable[..., list[str]]) -> None:
    class After(Storing):
        def process_event(self, db: Any, ev: Any) -> None:
            assert self.get_database("src_db") is db
            self.batch_db = db
            Storing.process_event(self, db, ev)

        def work(self) -> Any:
            found = Storing.work(self)
            if found:
                own = self.get_database("src_db")
                assert own is not self.batch_db
                own.cursor().execute("insert into seen values ('after')")
                own.commit()
                own.cursor().execute("insert into seen values ('lost')")
            return found

    After(conf()).start()
    send(db, QUEUE, ("t", "a"))
    After(conf()).start()
    assert column(db, "select data from seen") == ["a", "after"]


def test_two_processes_share_a_cooperative_consumer(
    db: Database, conf: Callable[..., list[str]]
) -> None:
    class Coop(pgq.CoopConsumer):
        def __init__(self, args: list[str]) -> None:
            pgq.CoopConsumer.__init__(self, "job", "src_db", args)

        def process_event(self, db: Any, ev: Any) -> None:
            db.cursor().execute(
                "insert into seen values (%s)", [f"{self.cf.get('subconsumer_name')} {ev.data}"]
            )
            ev.tag_done()

        def work(self) -> Any:
            pgq.CoopConsumer.work(self)
            # One batch a start.
            return False

    with pytest.raises(SystemExit) as ended:
        Coop(conf()).start()
    assert ended.value.code == 2
    for name in ("one", "two"):
        Coop(conf(subconsumer_name=name)).start()
    send(db, QUEUE, ("t", "a"))
    send(db, QUEUE, ("t", "b"))
    Coop(conf(subconsumer_name="one")).start()
    Coop(conf(subconsumer_name="two")).start()
    assert column(db, "select data from seen") == ["one a", "two b"]


def test_the_program_reads_its_settings_again_after_a_signal(
    db: Database, conf: Callable[..., list[str]]
) -> None:
    class Reloading(Storing):
        prefix = ""

        def reload(self) -> None:
            Storing.reload(self)
            self.prefix = self.cf.get("prefix")
            send(db, QUEUE, ("t", "a"))

        def process_event(self, db: Any, ev: Any) -> None:
            db.cursor().execute("insert into seen values (%s)", [self.prefix + ev.data])
            ev.tag_done()
            self.stop()

        def startup(self) -> None:
            conf(prefix="new-", loop_delay=0.1)
            os.kill(os.getpid(), signal.SIGHUP)

    Reloading(conf(loop_delay=0.1)).start()
    assert column(db, "select data from seen") == ["new-a"]


def test_a_consumer_of_a_node_keeps_its_position_there(
    db: Database, conf: Callable[..., list[str]]
) -> None:
    class Cascaded(pgq.CascadedConsumer):
        def __init__(self, args: list[str]) -> None:
            pgq.CascadedConsumer.__init__(self, "job", "src_db", args)

        def process_remote_event(self, src_curs: Any, dst_curs: Any, ev: Any) -> None:
            src_curs.execute("select %s || '!'", [ev.ev_data])
            dst_curs.execute("insert into seen values (%s)", src_curs.fetchone())
            ev.tag_done()

    db.execute("select pgq_node.register_location('q', 'root', %s, false)", db.dsn)
    db.execute("select pgq_node.create_node('q', 'root', 'root', 'w', null, null, null)")
    Cascaded(conf()).start()
    send(db, QUEUE, ("t", "a"))
    Cascaded(conf()).start()
    assert column(db, "select data from seen") == ["a!"]
    assert db.value("select count(*) from pgq_node.local_state where consumer_name = 'job'") == 1
