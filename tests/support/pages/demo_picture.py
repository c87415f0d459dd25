"""The command that makes the picture of the README, as a module."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_FILE = Path(__file__).parents[3] / "docs" / "demo_picture.py"
_spec = importlib.util.spec_from_file_location("demo_picture", _FILE)
assert _spec and _spec.loader
demo_picture = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(demo_picture)
