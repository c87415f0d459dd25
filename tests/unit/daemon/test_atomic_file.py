"""Files are written completely or not at all, and leave nothing beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.cli.inspect import events, repair
from londiste.daemon.files import atomic_file, write_atomically
from londiste.errors import LondisteError
from londiste.replicate import save
from tests.support.full_disk import full_disk


def test_a_file_is_replaced_as_a_whole_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "position"
    for text in ("one", "two"):
        write_atomically(path, text)
        assert path.read_text() == text
    assert path.stat().st_mode & 0o077 == 0


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    write_atomically(path, "old")
    with pytest.raises(ValueError), atomic_file(path) as file:
        file.write("new")
        raise ValueError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_existing_name_is_kept_on_request(tmp_path: Path) -> None:
    path = tmp_path / "version"
    write_atomically(path, "first", replace=False)
    with pytest.raises(FileExistsError):
        write_atomically(path, "second", replace=False)
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [events.write, repair.write, save.write])
def test_a_full_disk_needs_space_and_no_other_name(
    write: Callable[[Path, str], None], tmp_path: Path
) -> None:
    with full_disk(), pytest.raises(LondisteError, match="File too large") as caught:
        write(tmp_path / "new", "text")
    assert caught.value.hint == "free space on its file system"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(LondisteError, match="No such file or directory") as caught:
        write(tmp_path / "none" / "new", "text")
    assert "directory" in caught.value.hint
    (tmp_path / "old").write_text("old")
    if write is not repair.write:
        with pytest.raises(LondisteError) as caught:
            write(tmp_path / "old", "text")
        assert "name" in caught.value.hint
