"""One database that does not answer: the daemons of all others are kept running."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from dataclasses import replace

import pytest
from psycopg import conninfo

from londiste.cascade.commands.endpoint import endpoint
from londiste.cli import cli
from londiste.cli.errors import run
from londiste.db.connection import Connection
from londiste.errors import NodeUnreachable
from londiste.migrate import daemons as of_migration
from londiste.migrate.databases import MigrateSettings, pair
from londiste.migrate.phase import Phase, look_at_answering
from londiste.orchestration import daemons
from londiste.orchestration.daemons import TICKER, Daemons, Question, ticker_runs
from londiste.replicate import daemons as of_replication
from londiste.replicate.databases import ReplicateSettings, Replication
from tests.fixtures.cascade import QUEUE, Nodes
from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for

STAYS = (sys.executable, "-c", "import signal; signal.pause()")
#: Nobody listens there.
NOWHERE = "host=127.0.0.1 port=1 dbname=away"


def _kept(children: Daemons, monkeypatch: pytest.MonkeyPatch) -> Daemons:
    """With children that only stay, and are started again at once."""
    monkeypatch.setattr(daemons, "PERIOD", 0.0)
    needs = [replace(need, argv=STAYS) for need in children._needs]
    monkeypatch.setattr(children, "_needs", needs)
    return children


def _replaced(children: Daemons) -> None:
    """Kills the children, and waits until all are started again."""
    before = dict(children._children)
    for child in before.values():
        child.signal(signal.SIGKILL)

    def restarted() -> bool:
        children.look()
        now = children._children
        return all(now.get(name, child) is not child for name, child in before.items())

    wait_for(restarted, what=f"{', '.join(before)} to be started again")


def test_a_silent_target_stops_no_restart_elsewhere(
    pgq_db: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = conninfo.make_conninfo(pgq_db.dsn, application_name="other")
    source, away, target = (
        endpoint(name, dsn, f"replicate_{name}")
        for name, dsn in (("source", pgq_db.dsn), ("away", NOWHERE), ("target", other))
    )
    replication = Replication(ReplicateSettings(), "q", source, (away, target))
    children = _kept(of_replication.children([replication]), monkeypatch)
    with daemons.kept(children), caplog.at_level(logging.INFO, daemons.__name__):
        children.look()
        # The worker of the silent one may run in another process: nobody knows.
        assert set(children.own) == {TICKER, source.worker, target.worker}
        _replaced(children)
        with pytest.raises(NodeUnreachable, match="node away does not answer"):
            children.wait()
    (said,) = (one.getMessage() for one in caplog.records if "not monitored" in one.getMessage())
    assert said.startswith("replicate_away: not monitored: node away does not answer")


def test_no_database_waits_for_the_answer_of_another(pgq_db: Database) -> None:
    # Nobody passes it alone.
    together = threading.Barrier(2, timeout=30)

    def at(dsn: str) -> Connection:
        together.wait()
        if dsn == NOWHERE:
            raise NodeUnreachable("away")
        return conn

    with pgq_db.connect() as conn:
        asked = [
            Question("a", NOWHERE, ticker_runs),
            Question("b", pgq_db.dsn, ticker_runs),
            Question("c", NOWHERE, ticker_runs),
        ]
        found = daemons.ask(asked, at)
    assert list(found.unknown) == ["a", "c"] and found.running == set()


def test_a_silent_old_database_keeps_the_ticker_of_the_new_one(
    pgq_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = pair(MigrateSettings(from_db=NOWHERE, to_db=pgq_db.dsn))
    with of_migration.kept(both) as children:
        _kept(children, monkeypatch).look()
        assert set(children.own) == {TICKER, both.new.worker}
        _replaced(children)


def test_a_database_that_refuses_the_login_hides_no_migration(pgq_db: Database) -> None:
    refused = conninfo.make_conninfo(pgq_db.dsn, user="nobody_here")
    both = pair(MigrateSettings(from_db=refused, to_db=pgq_db.dsn))
    with both.sites() as sites:
        found, silent = look_at_answering(sites, both)
    assert found.phase is Phase.UNKNOWN and silent is not None and silent.exit_code == 6
    assert 'role "nobody_here" does not exist' in silent.message


def test_status_shows_the_nodes_that_answer(
    nodes_of: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")

    def said(*dsns: str, why: str = "Connection refused") -> list[str]:
        capsys.readouterr()
        call = ["replicate", *dsns, "--also", NOWHERE.replace("away", "far")]
        assert run(cli, [*call, "--queue", QUEUE, "--status"]) == 6
        printed = capsys.readouterr()
        assert "error: " in printed.err and why in printed.err
        return printed.out.splitlines()

    far = "far@127.0.0.1:1: does not answer"
    silent, above, below = said(root.dsn, leaf.dsn)
    assert (silent, above) == (far, f"{root.name}: root, 0 tables")
    assert below.startswith("leaf: ")
    assert said(root.dsn, NOWHERE)[2:] == [above]
    away = "away@127.0.0.1:1: does not answer"
    assert said(NOWHERE, leaf.dsn) == [away, far, "leaf: 0 of 0 tables in sync, lag unknown"]
    # A refused login is one of them.
    refused = 'role "nobody_here" does not exist'
    shown = said(root.dsn, conninfo.make_conninfo(leaf.dsn, user="nobody_here"), why=refused)
    assert shown[0].endswith(": refuses the connection")
    assert shown[1:] == [far, above]
