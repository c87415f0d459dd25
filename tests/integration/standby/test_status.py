"""status shows where a worker reads; settings and errors show no password."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

from psycopg import conninfo

from londiste.cascade.daemons import Life, Running
from londiste.settings import WorkerSettings, load
from tests.fixtures.line import Command
from tests.integration.standby.conftest import Pair

Make = Callable[..., Pair]


def test_status_names_the_standby(pair: Make, command: Command) -> None:
    found = pair()
    worker = found.started()
    found.line.wait_position(found.leaf, found.write(0, 10))

    def shown() -> bool:
        return "batches are read from it, read " in command(found.leaf, "status").out

    found.line.wait(shown, "the line of status")
    out = command(found.leaf, "status").out
    assert f"standby {found.root.database.name}@{found.standby.place}:5432: " in out, out
    # A standby that is not used any more is not shown.
    found.configure("")
    worker.send(signal.SIGHUP)
    found.line.wait(lambda: worker.said().count("reading from node root: ") == 2, "new settings")
    assert worker.said().count("batches are read from its standby") == 1
    assert "batches are read from it" not in command(found.leaf, "status").out
    found.line.wait_position(found.leaf, found.write(10, 10))
    assert found.same()


def test_a_finding_names_the_reason() -> None:
    one = Running("standby", "shop@standby1:5432", Life.ALIVE, error="it lags; node root is read")
    assert one.text == "standby shop@standby1:5432: NOT READ: it lags; node root is read"


def test_the_password_is_shown_nowhere(pair: Make, command: Command) -> None:
    found = pair()
    secret = conninfo.make_conninfo(
        found.standby.dsn(found.root.database.name), password="hush4711", user="nobody"
    )
    found.configure(secret)
    assert "hush4711" not in repr(load(WorkerSettings, found.leaf.config))
    worker = found.started()
    found.line.wait_position(found.leaf, found.write(0, 10))
    said = worker.said()
    assert "; reading from node root" in said
    for args in (["status"], ["status", "--json"], ["config"], ["compare"]):
        done = command(found.leaf, *args)
        said += done.out + done.err
    assert "hush4711" not in said
    assert found.same()


def test_a_readable_file_with_its_password_is_refused(pair: Make, command: Command) -> None:
    found = pair()
    found.configure("host=standby1 password=hush4711")
    Path(found.leaf.config).chmod(0o644)
    done = command(found.leaf, "worker", "--once")
    assert done.code == 2 and "hush4711" not in done.err, str(done)
    assert "read_from" in done.err


def test_doctor_names_a_standby_that_would_not_be_read(pair: Make, command: Command) -> None:
    found = pair()

    def findings() -> list[dict[str, str]]:
        done = command(found.leaf, "doctor", "--json")
        told: list[dict[str, str]] = json.loads(done.out)["findings"]
        return [one for one in told if one["id"] == "read-from"]

    assert findings() == []
    found.configure(read_from=found.root.database.dsn)
    (refused,) = findings()
    assert refused["severity"] == "warning"
    assert "it is no standby (any more)" in refused["what"]
    assert refused["do"].startswith("correct read_from in the settings of the node")
    found.standby.stop()
    found.configure()
    (down,) = findings()
    assert "the standby of read_from: " in down["what"] and down["do"]
    found.standby.start()
