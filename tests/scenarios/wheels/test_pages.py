"""Pages are pasted in order, as a stranger has them: wheels, an own environment, no checkout."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from psycopg import conninfo

from tests.docs.test_layers import ROOT
from tests.fixtures.cluster import Database
from tests.support.wheels import Environment, environment, outside, wheels  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


#: The client of PostgreSQL, which the wheels do not bring.
PSQL = """psql() { python -c 'import sys, psycopg
psycopg.connect(sys.argv[1], autocommit=True).execute(sys.argv[3])' "$@"; }
"""


@pytest.fixture(scope="module")
def installed(
    wheels: Path,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Environment:
    directory = tmp_path_factory.mktemp("stranger") / "venv"
    return environment(directory, *map(str, wheels.glob("*.whl")), borrowed=True)


def section(page: str, heading: str) -> list[tuple[str, str]]:
    """The code blocks under a heading, up to the next one of its rank: language and text."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"(?ms)^{re.escape(heading)}\n(.*?)(?=^## |\Z)", text)
    assert found, f"{page} has no {heading}"
    return re.findall(r"(?ms)^```(\w*)\n(.*?)^```", found[1])


def commands(script: str) -> list[str]:
    """The commands of a shell script; a here-document belongs to its command."""
    plain = re.sub(r"(?ms)<<(\w+)\n.*?^\1$", "", script).replace("\\\n", " ")
    return [line for line in plain.splitlines() if line.strip() and not line.startswith("#")]


class Stranger:
    """A shell in an empty directory."""

    def __init__(self, installed: Environment, directory: Path, services: dict[str, str]) -> None:
        self.directory = directory
        file = directory / "services"
        file.write_text(
            "\n".join(
                f"[{name}]\n"
                + "\n".join(f"{k}={v}" for k, v in conninfo.conninfo_to_dict(dsn).items())
                for name, dsn in services.items()
            )
        )
        self.env = outside(
            installed,
            PGSERVICEFILE=str(file),
            LONDISTE_POLL_INTERVAL="0.1",
            PIP_DISABLE_PIP_VERSION_CHECK="1",
        )

    def paste(self, script: str) -> str:
        """Pastes a block; what it printed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.directory,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        return done.stdout

    def stop(self) -> None:
        """Ends the daemons that the pages have left in the background."""
        for file in self.directory.glob("*.pid"):
            os.kill(int(file.read_text()), signal.SIGTERM)


@pytest.fixture
def databases(new_database: Callable[..., Database]) -> tuple[Database, Database]:
    return new_database(pgq=False), new_database(pgq=False)


@pytest.fixture
def stranger(
    installed: Environment, tmp_path: Path, databases: tuple[Database, Database]
) -> Iterator[Stranger]:
    old, new = databases
    made = Stranger(installed, tmp_path, {"shop_old": old.dsn, "shop_new": new.dsn})
    try:
        yield made
    finally:
        made.stop()


def test_the_readme_replicates_a_table(
    stranger: Stranger, databases: tuple[Database, Database]
) -> None:
    old, new = databases
    old.execute("create table orders (id serial primary key, what text)")
    old.execute("insert into orders (what) select 'x' from generate_series(1, 100)")
    ((_, script), *_) = section("README.md", "## Ten commands that replicate a table")
    assert len(commands(script)) == 13
    for name, database in (("old", old), ("new", new)):
        script = script.replace(f"host={name}.example dbname=shop user=repl", database.dsn)
    assert re.search(r"public\.orders +yes +100 +100", stranger.paste(script))
    assert new.value("select pg_get_serial_sequence('orders', 'id')") == "public.orders_id_seq"


def test_the_quickstart_replicates_and_uninstalls(
    stranger: Stranger, databases: tuple[Database, Database]
) -> None:
    old, new = databases
    old.execute(
        "create table orders (id int primary key); create schema sales;"
        " create table sales.lines (id int primary key); insert into orders values (1)"
    )
    pasted = 0
    page = "docs/quickstart.md"
    for language, text in section(page, "## Replicate a table between two of your databases"):
        if language == "toml":
            name = text.split("\n", 1)[0].removeprefix("# ")
            (stranger.directory / name).write_text(text)
        elif language == "":
            printed = stranger.paste(text)
            pasted += len(commands(text))
    assert pasted == 12
    assert re.search(r"public\.orders +yes +1 +1", printed)
    assert new.execute("select id from orders") == [(1,)]
    for _, text in section(page, "## Uninstall"):
        stranger.paste(text)


def test_the_readme_shows_the_event_of_a_queue(
    stranger: Stranger, databases: tuple[Database, Database]
) -> None:
    ((_, script), *_) = section("README.md", "## A queue without replication")
    assert len(commands(script)) == 8
    script = script.replace("host=shop.example dbname=shop user=app", databases[0].dsn)
    assert "anna@example.com" in stranger.paste(script)


def test_the_consumer_of_the_page_runs(
    stranger: Stranger, databases: tuple[Database, Database]
) -> None:
    db = databases[0]
    blocks = section("docs/howto/write-a-consumer.md", "# Write a consumer")
    programs = [text for language, text in blocks if language == "python"]
    scripts = [text for language, text in blocks if language == ""]
    assert [len(commands(text)) for text in scripts] == [3, 2]
    (stranger.directory / "greeter.py").write_text(programs[0])
    # The last line runs until it is stopped.
    script = "".join(scripts).rstrip() + " --once\n"
    stranger.paste(PSQL + script.replace("dbname=shop", db.dsn))
    consumers = "select consumer_name from pgq.get_consumer_info('signups')"
    assert db.execute(consumers) == [("greeter",)]
    assert db.value("select to_regclass('greetings') is not null")
