"""After each set-up command the next step is printed, with the options of the call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from tests.fixtures.cluster import Database


def test_every_step_names_the_next_one(
    new_database: Callable[..., Database], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, leaf = new_database(pgq=False), new_database(pgq=False)
    root.execute("create table t (id int primary key)")
    for name, database in (("root", root), ("leaf", leaf)):
        (tmp_path / f"{name}.toml").write_text(
            f'[londiste]\ndb = "{database.dsn}"\nqueue_name = "q"\n'
        )

    def after(file: str, *args: str) -> str:
        config = str(tmp_path / file)
        capsys.readouterr()
        assert run(cli, ["-c", config, *args]) == 0
        printed = capsys.readouterr().err.replace(config, file)
        found = [line for line in printed.splitlines() if line.startswith("next: ")]
        return found[0] if found else ""

    step = "next: londiste -c root.toml create-root NAME"
    below = "londiste -c root.toml create-leaf NAME --provider DSN"
    assert after("root.toml", "install") == f"{step}, or {below}"
    # Without a settings file these commands would have no queue.
    other = new_database(pgq=False)
    assert run(cli, ["install", "--db", other.dsn]) == 0
    printed = capsys.readouterr().err
    assert "next: write db and queue_name into a file" in printed
    assert "then londiste -c FILE create-root NAME" in printed
    assert after("root.toml", "install") == ""
    assert after("leaf.toml", "install")
    step = (
        "next: londiste -c root.toml ticker and londiste -c root.toml worker, then londiste -c"
        " root.toml add-table TABLE"
    )
    assert after("root.toml", "create-root", "a", root.dsn) == step
    # As after an upgrade: a file of the SQL has changed.
    root.execute(
        "update londiste.installed_file set sha256 = '' where path like 'functions/%version.sql'"
    )
    assert after("root.toml", "install") == (
        "next: restart the ticker and the workers of this database;"
        " then londiste -c root.toml check"
    )
    assert "on each node below" in after("root.toml", "add-table", "t")
    create = ("create-leaf", "b", leaf.dsn, "--provider", root.dsn)
    assert "londiste -c leaf.toml worker" in after("leaf.toml", *create)
    step = "next: londiste -c leaf.toml wait-sync"
    assert after("leaf.toml", "add-table", "t", "--create") == step
    assert after("leaf.toml", "add-table", "t") == ""
    assert "queue register x CONSUMER" in after("root.toml", "queue", "create", "x")
