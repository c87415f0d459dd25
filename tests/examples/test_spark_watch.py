"""The five lines print changes while pgbench runs."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from londiste.embedded.java import find_java
from londiste.embedded.postgres import Cluster
from tests.examples.conftest import Example
from tests.fixtures.cluster import Database
from tests.support.scenarios.processes import Processes
from tests.support.ticking import Ticker
from tests.support.waiting import wait_for


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_changes_are_printed_while_pgbench_runs(
    example: Callable[..., Example], pgq_db: Database, processes: Processes
) -> None:
    watch = example("spark_watch", JAVA_HOME=str(find_java()))
    watch.run("londiste queue create")
    server = pgq_db.cluster
    if not isinstance(server, Cluster):
        pytest.skip("pgbench of another installation")
    program = str(server.program("pgbench"))
    done = processes.run([program, "-i", "-q", pgq_db.dsn], server.environment())
    assert done.code == 0, done
    watch.sql("create trigger accounts_log")
    watch.tick("bank")
    printed = watch.start("python")
    with Ticker(pgq_db, "bank"):
        # The first batch is empty: the query stands at its start then.
        wait_for(
            lambda: pgq_db.value("select count(*) from pgq.get_consumer_info('bank', 'watch')"),
            timeout=300,
            what="the query",
        )
        writer = processes.start(
            "pgbench", [program, "-c", "2", "-T", "300", pgq_db.dsn], server.environment()
        )
        wait_for(
            lambda: re.search(r"\|update_postimage\| *\d+\| *-?\d+\|", printed.said()),
            timeout=300,
            what="changes on the console",
        )
        writer.kill()
    printed.kill()
