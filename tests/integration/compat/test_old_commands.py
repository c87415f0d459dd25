"""Every row of the page's tables is typed: the old command does what the present one is said to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from londiste.cli import _old_form, cli
from londiste.cli.errors import run as run_command

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "coming-from-skytools.md"
SECTION = PAGE.read_text(encoding="utf-8").split("## Old and present commands")[1].split("\n## ")[0]
ROWS = re.findall(r"(?m)^\| `((?:provider|subscriber) [^`]*)` \| (.*) \|$", SECTION)


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
