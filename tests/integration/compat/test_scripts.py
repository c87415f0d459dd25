"""Scripts in the style of generation 2: loop, options, log, settings, connections, rows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from londiste.compat import pgq, skytools
from tests.fixtures.cluster import Database
from tests.support.skytools.running import PROGRAMS, column, ini, run
from tests.support.waiting import wait_for


class Script(skytools.DBScript):
    """Calls a function of the test as its work."""

    def __init__(self, file: str, function: Callable[[Script], Any], *options: str) -> None:
        self.function = function
        skytools.DBScript.__init__(self, "script", [file, *options])

    def work(self) -> Any:
        return self.function(self)


def test_a_script_reads_one_database_and_writes_another(
    database: Database, new_database: Callable[..., Database], tmp_path: Path
) -> None:
    other = new_database()
    other.execute("create table t (id int primary key, v text)")

    def work(self: Script) -> None:
        src = self.get_database("src_db").cursor()
        src.execute("select 1 as id, 'x' as v; select 2 as id, 'it''s' as v")
        for row in src.dictfetchall():
            assert (row["id"], row.id, row[0], dict(row)) == (2, 2, 2, {"id": 2, "v": "it's"})
            dst = self.get_database("dst_db")
            dst.cursor().execute("insert into t values (%(id)s, %(v)s)", row)
            dst.commit()
        dst.cursor().execute("insert into t values (3, 'never committed')")

    conf = ini(tmp_path, "script", src_db=database.dsn, dst_db=other.dsn, loop_delay=0)
    Script(conf, work).start()
    assert other.execute("select * from t") == [(2, "it's")]


def test_a_script_repeats_its_work_with_new_connections_after_an_error(
    database: Database, tmp_path: Path
) -> None:
    database.execute("create table t (id int)")
    sessions = []

    def work(self: Script) -> None:
        db = self.get_database("db")
        sessions.append(db)
        db.cursor().execute("insert into t values (%s)", [len(sessions)])
        if len(sessions) < 3:
            raise KeyError("a failing connection")
        db.commit()
        self.stop()

    conf = ini(tmp_path, "script", db=database.dsn, loop_delay=0.1, exception_sleep=0.1)
    Script(conf, work).start()
    assert column(database, "select id from t") == [3]
    assert len(set(map(id, sessions))) == 3


def test_a_script_works_again_at_once_while_there_is_more(tmp_path: Path) -> None:
    left = [3, 2, 1, 0]

    def work(self: Script) -> int:
        self.stat_increase("units")
        return left.pop(0)

    Script(ini(tmp_path, "script", loop_delay=0), work).start()
    assert left == []


def test_the_log_is_cut_at_its_size(tmp_path: Path) -> None:
    def work(self: Script) -> None:
        for number in range(100):
            self.log.info("a line of the log: %d", number)

    conf = ini(
        tmp_path,
        "script",
        job_name="cut",
        loop_delay=0,
        logfile=f"{tmp_path}/%(job_name)s.log",
        log_size=1000,
        log_count=2,
    )
    Script(conf, work, "-q").start()
    assert not (tmp_path / "cut.log.1").exists()
    Script(conf, work).start()
    assert {p.name for p in tmp_path.glob("cut.log*")} == {"cut.log", "cut.log.1", "cut.log.2"}
    assert all(p.stat().st_size <= 1000 for p in tmp_path.glob("cut.log*"))


def test_settings_have_types_and_defaults(tmp_path: Path) -> None:
    conf = ini(
        tmp_path,
        "script",
        loop_delay=0,
        batch="7",
        lists="a, b,c",
        pairs="x:1, y:2",
        flag="yes",
        where="%(job_name)s/x",
    )

    def work(self: Script) -> None:
        cf = self.cf
        assert (cf.getint("batch"), cf.getint("none", 3), cf.getfloat("batch")) == (7, 3, 7.0)
        assert (cf.getlist("lists"), cf.getlist("none", [])) == (["a", "b", "c"], [])
        assert cf.getdict("pairs") == {"x": "1", "y": "2"}
        assert cf.getboolean("flag") and not cf.getbool("none", False)
        assert (cf.get("where"), cf.get("none", "x"), self.job_name) == ("script/x", "x", "script")
        cf.get("missing")

    with pytest.raises(SystemExit) as ended:
        Script(conf, work).start()
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], "error: no settings file given"),
        (["{none}"], "no such file"),
        (["{conf}", "--nonsense"], "error: no such option: --nonsense"),
        (["{conf}", "-s"], "error: -r, -s and -k: no pid file is configured"),
        (["{conf}", "--set", "x"], "error: --set x: must be KEY=VALUE"),
    ],
)
def test_a_wrong_start_is_one_line_and_a_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], text: str
) -> None:
    conf = ini(tmp_path, "script", loop_delay=0)
    given = [o.format(conf=conf, none=tmp_path / "none.ini") for o in options]
    with pytest.raises(SystemExit) as ended:
        skytools.DBScript("script", given)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_a_daemon_goes_into_the_background_and_is_stopped_by_its_file(
    pgq_db: Database, tmp_path: Path
) -> None:
    pgq_db.execute("select pgq.create_queue('q'); create table welcomed (name text)")
    pidfile = tmp_path / "welcome.pid"
    conf = ini(
        tmp_path,
        "welcome_app",
        job_name="welcome",
        src_db=pgq_db.dsn,
        pgq_queue_name="q",
        loop_delay=0.1,
        pidfile=f"{tmp_path}/%(job_name)s.pid",
        logfile=f"{tmp_path}/%(job_name)s.log",
        use_skylog=1,
    )
    run("welcome.py", "-d", conf)
    pgq_db.execute("select pgq.insert_event('q', 'WelcomeUser', 'anna')")
    pgq_db.execute("select pgq.force_tick('q'), pgq.ticker('q')")
    wait_for(lambda: column(pgq_db, "select name from welcomed") == ["anna"], what="the event")
    run("welcome.py", conf, "-r")
    run("welcome.py", "-s", conf)
    wait_for(lambda: not pidfile.exists(), what="the end of the daemon")
    log = (tmp_path / "welcome.log").read_text()
    assert "reloaded the settings" in log
    assert log.count("setting use_skylog has no effect") == 1
    # Again, without lines about what it does; -k ends it at once.
    run("welcome.py", "-q", "-d", conf)
    pgq_db.execute("select pgq.insert_event('q', 'WelcomeUser', 'bert')")
    pgq_db.execute("select pgq.force_tick('q'), pgq.ticker('q')")
    wait_for(lambda: len(column(pgq_db, "select 1 from welcomed")) == 2, what="the event")
    run("welcome.py", conf, "-k")
    wait_for(lambda: not pidfile.exists(), what="the end of the daemon")
    assert "Welcome bert!" not in (tmp_path / "welcome.log").read_text()


def test_events_can_be_read_one_by_one(pgq_db: Database, tmp_path: Path) -> None:
    pgq_db.execute("select pgq.create_queue('q')")
    lengths = []

    class Lazy(pgq.Consumer):
        def process_batch(self, db: Any, batch_id: int, ev_list: Any) -> None:
            for ev in ev_list:
                if ev.ev_data == "3":
                    break
                ev.tag_done()
            lengths.append(len(ev_list))

    conf = [ini(tmp_path, "job", db=pgq_db.dsn, pgq_queue_name="q", loop_delay=0, pgq_lazy_fetch=2)]
    Lazy("job", "db", conf).start()
    pgq_db.execute("select pgq.insert_event('q', 't', n::text) from generate_series(1, 5) n")
    pgq_db.execute("select pgq.force_tick('q'), pgq.ticker('q')")
    Lazy("job", "db", conf).start()
    assert lengths == [3]
    # What was not taken, or not tagged, comes again.
    assert column(pgq_db, "select ev_data from pgq.retry_queue order by ev_id") == ["3", "4", "5"]


def test_rows_of_the_trigger_are_decoded_and_quoted(database: Database, tmp_path: Path) -> None:
    row = skytools.db_urldecode("id=1&name=it%27s+%26&gone")
    assert row == {"id": "1", "name": "it's &", "gone": None}
    assert skytools.db_urlencode(row) == "id=1&name=it%27s+%26&gone"
    names = f"{skytools.quote_ident('Odd Name')}, {skytools.quote_fqident('order')}"
    assert names == '"Odd Name", "public"."order"'

    def work(self: Script) -> None:
        curs = self.get_database("db").cursor()
        for value in ("it's", "back\\slash", None):
            curs.execute(f"select {skytools.quote_literal(value)}")
            assert curs.fetchone()[0] == value
        curs.execute("select n from generate_series(1, 5) n where n in %s", [(2, 4)])
        assert curs.fetchall() == [(2,), (4,)]

    Script(ini(tmp_path, "script", db=database.dsn, loop_delay=0), work).start()


def test_modules_of_the_old_names_are_two_lines(tmp_path: Path) -> None:
    page = PROGRAMS.parents[2] / "docs" / "howto" / "port-a-skytools-program.md"
    text = page.read_text(encoding="utf-8")
    for module in ("pgq", "skytools"):
        line = f"from londiste.compat.{module} import *  # noqa: F403"
        assert line in text
        (tmp_path / f"{module}.py").write_text(f"{line}\n")
    program = "import pgq, skytools\nassert issubclass(pgq.Consumer, skytools.DBScript)"
    subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{PROGRAMS.parents[2]}"},
        check=True,
    )
