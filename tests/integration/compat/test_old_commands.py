"""Every row of the page's tables is typed: the old command does what the present one is said to.

``test_pair.py`` runs the rows of the first table on two databases.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.cli import _old_form, cli
from londiste.cli.errors import run as run_command
from tests.fixtures.cluster import Database
from tests.support.skytools.running import ROOT, Started, ini, run, send
from tests.support.waiting import wait_for

PAGE = (ROOT / "docs" / "howto" / "coming-from-skytools.md").read_text(encoding="utf-8")
SECTIONS = {part.split("\n")[0]: part for part in PAGE.split("\n## ")}
PAIRS = SECTIONS["Old and present commands"]
ROWS = re.findall(r"(?m)^\| `((?:provider|subscriber) [^`]*)` \| (.*) \|$", PAIRS)
PROGRAMS = re.findall(r"(?m)^\| (`.*?)\|", SECTIONS["Queue administration and movers"])
PRESENT = re.findall(r"(?m)^\| `.*\| `(.*?)` \|$", SECTIONS["Queue administration and movers"])


def test_the_table_has_every_command() -> None:
    from londiste.cli.pair.common import OLD

    listed = {(side, old) for side in OLD for old in OLD[side]}
    assert {tuple(row.split()[:2]) for row, _ in ROWS} == listed


@pytest.mark.parametrize(("old", "present"), ROWS, ids=[old for old, _ in ROWS])
def test_an_old_command_is_the_present_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, present: str
) -> None:
    file = tmp_path / "replic.ini"
    file.write_text(
        "[londiste]\nprovider_db = dbname=a\nsubscriber_db = dbname=b\npgq_queue_name = q\n"
    )
    assert run_command(cli, _old_form([str(file), *old.split(), "--dry-run"])) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [f"londiste -c {file} {words}" for words in re.findall("`(.*?)`", present)]
    for line in printed:
        # The present command exists, with these words: its help is printed.
        words = line.split()[1:]
        assert run_command(cli, [*words, "--help"]) == 0


def test_every_row_of_the_tables_is_read() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(rows) == len(ROWS) + len(PROGRAMS)
    assert len(PROGRAMS) == len(PRESENT)


@pytest.mark.parametrize("side", ["provider", "subscriber"])
def test_the_help_of_a_side_lists_its_commands(
    side: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(cli, _old_form(["replic.ini", side, "--help"])) == 0
    listed = capsys.readouterr().out.split("commands: ")[1].strip().split(", ")
    assert sorted(listed) == sorted({row.split()[1] for row, _ in ROWS if row.startswith(side)})


@pytest.mark.parametrize("present", PRESENT)
def test_the_present_command_of_a_program_exists(present: str) -> None:
    assert run_command(cli, [*present.split()[1:], "--help"]) == 0


def test_the_programs_are_run_as_the_rows_say(
    new_database: Callable[..., Database], tmp_path: Path
) -> None:
    src, dst = new_database(), new_database(pgq=True)
    dst.execute("select pgq.create_queue('dst'); create table target (id int)")
    keys = {"src_db": src.dsn, "dst_db": dst.dsn, "pgq_queue_name": "more", "loop_delay": 0.1}
    keys |= {"job_name": "job"}
    pidfile = tmp_path / "job.pid"
    folders = {
        "pgqadm": {"db": src.dsn, "maint_delay_min": 5, "loop_delay": 0.1, "pidfile": pidfile},
        "queue_mover": {**keys, "dst_queue_name": "dst"},
        "queue_splitter": {**keys, "job_name": "splitter"},
        "table_dispatcher": {**keys, "job_name": "dispatcher", "dest_table": "target"},
    }
    for section, given in folders.items():
        (tmp_path / section).mkdir()
        given = {"job_name": "job", **given}
        Path(ini(tmp_path / section, section, **given)).rename(tmp_path / section / "FILE.ini")
    newest = "select max(tick_id) from pgq.tick"
    known = "select 1 from pgq.get_consumer_info('more', %s)"
    at_end = f"select last_tick = ({newest}) from pgq.get_consumer_info('more', %s)"
    for row in PROGRAMS:
        program, *words = row.strip("` ").split()
        folder = tmp_path / program
        if words == ["FILE.ini"] and not src.value("select count(*) from pgq.queue"):
            src.execute("select pgq.create_queue('more')")
        if "-d" in words:
            run(program, *words, cwd=folder)
            run(program, "FILE.ini", "-s", cwd=folder)
            wait_for(lambda: not pidfile.exists(), what="the end of the daemon")
        elif words in (["FILE.ini"], ["FILE.ini", "ticker"]):
            # It runs until it is stopped: it works, so it takes the signal.
            started = Started(program, *words, cwd=folder)
            if words[1:]:
                before = src.value(newest)
                src.execute("select pgq.force_tick('Q')")
                wait_for(lambda before=before: src.value(newest) > before, what="a tick")
            else:
                job = folders[program].get("job_name", "job")
                wait_for(lambda job=job: src.value(known, job), what=row)
                send(src, "more", ("t", "x", "dst"))
                wait_for(lambda job=job: src.value(at_end, job), what=row)
            started.signal(signal.SIGINT)
            started.end()
        else:
            run(program, *words, cwd=folder)
        if words[1:] == ["register", "Q", "C"]:
            assert src.value("select consumer_name from pgq.get_consumer_info()") == "C"
    assert src.value("select count(*) from pgq.get_queue_info('more')") == 1
    assert src.value("select string_agg(queue_name, ' ') from pgq.get_queue_info()") == "more"
