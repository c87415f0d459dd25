"""Settings of a lake: what it does not have, a warning reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from londiste.lake.settings import LakeSettings
from londiste.settings import load

LAKE = {"db": "dbname=x", "queue_name": "q", "lake_path": "/lake", "lake_tables": "a"}


@pytest.mark.parametrize(
    ("file", "given", "warned"),
    [
        ('[lake]\nengine = "local"\n', {}, True),
        ("", {"engine": "local"}, True),
        ('[lake]\nengine = "spark"\n', {}, False),
        ('[londiste]\nengine = "local"\n', {}, False),  # of the worker
    ],
)
def test_an_engine_that_a_lake_does_not_use_is_named_in_a_warning(
    file: str,
    given: dict[str, Any],
    warned: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    toml = tmp_path / "lake.toml"
    toml.write_text(file)
    load(LakeSettings, toml, {**LAKE, **given})
    text = "setting engine has no effect: lake always uses spark"
    assert (text in caplog.text) is warned
