"""``londiste selftest``: holds on a sound pair, finds a damaged target, and leaves nothing."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass, field
from typing import Any

import pytest
from psycopg import conninfo

from londiste.selftest.report import Report
from tests.fixtures.cluster import Database, Server
from tests.support.documents import check
from tests.support.replicating import FAST, catalog
from tests.support.scenarios import relocation
from tests.support.scenarios.harness import Cascade
from tests.support.scenarios.processes import Done

#: Its first step kills the worker.
SEED = "7"
#: Its first step kills the ticker.
TICKER_SEED = "40"


@dataclass
class Pair:
    """Two databases, and what was in them at the beginning."""

    cascade: Cascade
    dsns: list[str] = field(default_factory=list)
    databases: list[Database] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.databases = self.databases or [self.cascade.make_database() for _ in range(2)]
        self.dsns = [one.dsn for one in self.databases]
        self.before = [catalog(one) for one in self.databases]

    @property
    def target(self) -> Database:
        return self.databases[1]

    def words(self, *more: str) -> list[str]:
        return ["selftest", *self.dsns, *more]

    def run(self, *more: str, accept: tuple[int, ...] = (0,)) -> Done:
        """A short test."""
        return self.cascade.londiste(None, *self.words(*more), accept=accept, seconds=400, **FAST)

    def report(self, *more: str, accept: tuple[int, ...] = (0,)) -> dict[str, Any]:
        """The report of a short test."""
        file = self.cascade.directory / "report.json"
        file.unlink(missing_ok=True)
        words = ("--minutes", "0.1", "--seed", SEED, "--json", str(file), *more)
        self.done = self.run(*words, accept=accept)
        found: dict[str, Any] = json.loads(file.read_text())
        check(found, [Report])
        return found

    def require_nothing_left(self) -> None:
        assert [catalog(one) for one in self.databases] == self.before
        for daemon in ("worker", "ticker", "copy"):
            assert self.cascade.processes.find(daemon) == []


def test_a_short_test_holds_and_leaves_nothing(cascade: Cascade) -> None:
    pair = Pair(cascade)
    html = cascade.directory / "report.html"
    report = pair.report("--output", str(html))
    assert report["result"] == "held", report
    assert {one["promise"]: one["result"] for one in report["promises"]} == dict.fromkeys(
        (one["promise"] for one in report["promises"]), "held"
    )
    times = {one["step"]: one["times"] for one in report["steps"]}
    assert times["kill the worker"] >= 1 and times["compare"] >= 1
    assert report["measured"]["committed"] > 0 and report["measured"]["latency_p95"] > 0
    assert "londiste selftest: held" in html.read_text()
    assert report["logs"] is None
    pair.require_nothing_left()


@pytest.mark.slow
def test_all_faults_and_commands_of_a_longer_test(cascade: Cascade) -> None:
    pair = Pair(cascade)
    report = pair.report("--minutes", "3")
    assert report["result"] == "held", report
    assert not [one for one in report["steps"] if not one["times"]], report["steps"]
    pair.require_nothing_left()


#: Every table that is created gets a trigger that changes replicated rows.
DAMAGE = """
create function public.lower_it() returns trigger language plpgsql as $$
begin
    new.balance := new.balance - 1;
    return new;
end $$;
create function public.damage() returns event_trigger language plpgsql as $$
begin
    if to_regclass('londiste_selftest.account') is not null and not exists (
        select from pg_trigger where tgname = 'lower_it') then
        create trigger lower_it before update on londiste_selftest.account
            for each row execute function public.lower_it();
        alter table londiste_selftest.account enable always trigger lower_it;
    end if;
end $$;
create event trigger damage on ddl_command_end when tag in ('CREATE TABLE')
    execute function public.damage();
"""


@pytest.mark.slow
def test_a_trigger_that_changes_replicated_rows_is_found(cascade: Cascade) -> None:
    pair = Pair(cascade)
    pair.target.execute(DAMAGE)
    pair.before = [catalog(one) for one in pair.databases]
    report = pair.report(accept=(1,))
    assert report["result"] == "broken"
    broken = {one["promise"]: one for one in report["promises"] if one["result"] == "broken"}
    assert broken["rows"]["where"].startswith("table londiste_selftest.account at tick")
    assert "balance" in broken["rows"]["what"] and "lower_it" in broken["rows"]["what"]
    assert all(one["what"] and one["where"] and one["next"] for one in broken.values())
    assert "BROKEN PROMISE" in pair.done.err and "next: londiste selftest" in pair.done.err
    pair.require_nothing_left()


@pytest.mark.slow
def test_a_killed_test_is_removed_by_clean_and_by_the_next_one(cascade: Cascade) -> None:
    pair = Pair(cascade)
    for kill_at in (1, 2):
        process = cascade.processes.start(
            f"selftest{kill_at}", cascade.command(None, *pair.words("--minutes", "5")), FAST
        )
        cascade.wait(lambda: len(cascade.processes.find("worker")) == 1, "the worker")
        process.kill()
        cascade.wait(lambda: not cascade.processes.find("worker"), "the end of the worker")
        assert [catalog(one) for one in pair.databases] != pair.before
        if kill_at == 1:
            assert "removed" in pair.run("--clean").err
            pair.require_nothing_left()
            assert "nothing to remove" in pair.run("--clean").err
    assert pair.report()["result"] == "held"
    assert "removed what an earlier self-test had left" in pair.done.err
    pair.require_nothing_left()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_test_removes_everything(cascade: Cascade, number: signal.Signals) -> None:
    pair = Pair(cascade)
    process = cascade.processes.start(
        "selftest", cascade.command(None, *pair.words("--minutes", "5")), FAST
    )
    cascade.wait(lambda: len(cascade.processes.find("worker")) == 1, "the worker")
    busy = pair.run("--clean", accept=(3,))
    assert "another self-test is running" in busy.err
    process.send(number)
    assert process.wait(120) == 130
    assert "result: interrupted" in process.said()
    pair.require_nothing_left()


@pytest.mark.slow
def test_a_role_without_superuser_and_its_password(cascade: Cascade) -> None:
    # The group roles exist on the server.
    cascade.make_database(pgq=True)
    pair = Pair(cascade)
    pair.dsns = [relocation.owner(one) for one in pair.databases]
    roles = [str(conninfo.conninfo_to_dict(dsn)["user"]) for dsn in pair.dsns]
    refused = pair.run("--minutes", "0.1", accept=(3,))
    assert f'grant londiste_writer to "{roles[0]}"' in refused.err, refused.err
    pair.require_nothing_left()
    # As the page lists them; the roles own their databases.
    pair.target.execute(f'grant londiste_writer to "{roles[0]}"')
    pair.target.execute(f'grant set on parameter session_replication_role to "{roles[1]}"')
    report = pair.report()
    assert report["result"] == "held", report
    for dsn in pair.dsns:
        password = str(conninfo.conninfo_to_dict(dsn)["password"])
        assert password not in pair.done.out + pair.done.err + json.dumps(report)
    pair.require_nothing_left()


@pytest.mark.slow
def test_installed_sql_and_the_ticker_of_another_process_stay(
    cascade: Cascade, cluster16: Server
) -> None:
    source = cascade.make_database(on=cluster16, pgq=True)
    pair = Pair(cascade, databases=[source, cascade.make_database(pgq=True)])
    source.execute("select pgq.create_queue('mine')")
    pair.before = [catalog(one) for one in pair.databases]
    ticker = cascade.processes.start(
        "ticker",
        cascade.command(None, "--set", f"databases={source.dsn}", "ticker"),
        FAST,
    )
    sessions = "select count(*) from pg_stat_activity where application_name like '%ticks%'"
    cascade.wait(lambda: source.value(sessions) > 0, "the ticker")
    report = pair.report("--seed", TICKER_SEED)
    assert report["result"] == "held", report
    steps = {one["step"]: one["not_possible"] for one in report["steps"]}
    assert "another process" in steps["kill the ticker"]
    assert ticker.exit_code() is None
    ticker.kill()
    pair.require_nothing_left()


@pytest.mark.slow
def test_wrong_input_is_refused_in_one_line(cascade: Cascade) -> None:
    pair = Pair(cascade)
    for words, text in (
        (("--keep", "--clean"), "exclude each other"),
        (("--minutes", "0"), "--minutes"),
        (("--output", "/no/such/directory/a.html"), "no such directory"),
    ):
        done = pair.run(*words, accept=(2,))
        assert text in done.err and done.err.count("error:") == 1, str(done)
    pair.dsns[1] = pair.dsns[0]
    assert "same database" in pair.run(accept=(2,)).err
    pair.require_nothing_left()
