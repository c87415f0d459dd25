"""A combined root that was replaced names at once how it becomes a stand-by."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from londiste.cli import cli
from londiste.cli.errors import run as run_command
from tests.fixtures.cascade import closed
from tests.fixtures.cluster import Server
from tests.support.scenarios.combined_cascade import ALL, PARTS, TABLES, Combined, kept_combined
from tests.support.servers.kept_nodes import Kept


@pytest.fixture
def combined(tmp_path: Path, cluster: Server, kept_worlds: Kept) -> Iterator[Combined]:
    with kept_combined(tmp_path, cluster, kept_worlds, "first", "second") as made:
        yield made


def test_its_hint_can_be_followed(combined: Combined, capsys: pytest.CaptureFixture[str]) -> None:
    combined.here(f"{ALL}@second", "add-table", *TABLES, "--expect-sync")
    for part in PARTS:
        combined.here(f"{part}@second", "add-table", *TABLES)
    with closed(combined.at["first"]):
        combined.here(f"{ALL}@second", "takeover", "first", "--failover", "--timeout", "0")
    config = str(combined.config(f"{ALL}@first"))
    said = []
    first = combined.at["first"].dsn
    for args in (("worker", "--once"), ("resurrect", "--node", "first")):
        capsys.readouterr()
        assert run_command(cli, ["-c", config, *args]) == 3
        said.append(capsys.readouterr().err.partition("hint: ")[2].splitlines()[0])
    plain = [text.replace(f" -c {config}", "") for text in said]
    assert plain[0] == plain[1]
    assert plain[0].split("; ") == [
        *(f"with the settings of queue {part}: londiste drop-node first" for part in PARTS),
        f"with the settings of queue {ALL}: londiste drop-node first, and londiste create-branch"
        f" first {shlex.quote(first)} --provider DSN",
        *(
            f"with the settings of queue {part}: londiste create-leaf first {shlex.quote(first)}"
            f" --provider {shlex.quote(combined.at[part].dsn)} --merge {ALL}, and londiste"
            " add-table TABLE"
            for part in PARTS
        ),
    ]
    for part in PARTS:
        combined.here(f"{part}@first", "drop-node", "first")
    combined.here(f"{ALL}@first", "drop-node", "first")
    above = ("--provider", combined.at["second"].dsn)
    combined.here(f"{ALL}@first", "create-branch", "first", first, *above)
    for part in PARTS:
        above = ("--provider", combined.at[part].dsn)
        combined.here(f"{part}@first", "create-leaf", "first", first, "--merge", ALL, *above)
    assert (combined.kind("first"), combined.kind("second")) == ("branch", "root")
