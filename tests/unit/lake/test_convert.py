"""``lake convert`` changes only directories of tables that an earlier release has written."""

from __future__ import annotations

from pathlib import Path

import pytest

from londiste.cli import cli
from londiste.cli.errors import run


def made(directory: Path) -> Path:
    """A directory with a list of versions."""
    (directory / "_versions").mkdir(parents=True)
    (directory / "_versions" / f"{0:020d}.json").touch()
    return directory


def test_a_directory_without_a_table_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("deltalake")
    lake, work, file = tmp_path / "lake", tmp_path / "work", tmp_path / "file"
    table, other = made(lake / "public.t"), made(lake / "public.a~%22b")
    (lake / "public.a~7E~22b").mkdir()
    (work / "_attempts").mkdir(parents=True)
    file.touch()
    before = sorted(tmp_path.rglob("*"))
    for given, code, words in (
        (work, 2, "contains no table of a lake"),
        (file, 2, "no such directory"),
        (tmp_path / "missing", 2, "no such directory"),
        (lake, 2, f"hint: londiste lake convert '{other}' {table}"),
        (other, 3, "public.a~7E~22b exists beside it"),
    ):
        # A directory that can be converted waits for the others.
        assert run(cli, ["lake", "convert", str(table), str(given)]) == code
        assert words in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before
