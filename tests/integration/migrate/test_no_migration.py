"""``migrate status`` and ``finish`` of databases between which no migration is under way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from tests.fixtures.cluster import Database


def test_databases_without_a_migration_are_not_called_finished_or_new(
    new_database: Callable[..., Database], capsys: pytest.CaptureFixture[str]
) -> None:
    pair = ["--from", new_database(pgq=False).dsn, "--to", new_database(pgq=False).dsn]
    capsys.readouterr()
    assert run(cli, ["migrate", "status", *pair]) == 0
    printed = capsys.readouterr()
    assert "none: not begun, or finished" in printed.out
    assert "next: to migrate: londiste migrate check" in printed.err
    assert "after londiste migrate finish" in printed.err and "nothing is left" in printed.err
    assert run(cli, ["migrate", "finish", *pair]) == 0
    printed = capsys.readouterr()
    said = "no migration between these databases: it is finished, or has not begun"
    assert printed.err.strip() == said
