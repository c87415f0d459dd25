"""``metrics --once --output``: the file is replaced in one step, or nothing is left."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from londiste.cli.inspect.metrics import write
from londiste.errors import BadOption
from londiste.metrics import samples
from londiste.metrics.cache import Outcome
from tests.support.full_disk import full_disk

SAMPLES = list(samples.process(Outcome(None, ok=False, age=0.0, seconds=0.0)))


def test_a_full_disk_leaves_the_old_file_alone(tmp_path: Path) -> None:
    output = tmp_path / "londiste.prom"
    write(output, SAMPLES)
    content = output.read_text()
    assert stat.S_IMODE(output.stat().st_mode) == 0o644 and "londiste_collect_success 0" in content
    with full_disk(), pytest.raises(BadOption, match="File too large") as caught:
        write(output, SAMPLES)
    assert caught.value.hint == "free space on its file system"
    assert [path.name for path in tmp_path.iterdir()] == ["londiste.prom"]
    assert output.read_text() == content
    with pytest.raises(BadOption) as caught:
        write(tmp_path / "none" / "x", SAMPLES)
    assert "choose a directory that exists" in caught.value.hint
