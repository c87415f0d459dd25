"""Files are written completely or not at all, and leave nothing beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from londiste.daemon.files import atomic_file, write_atomically


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
