"""docs/reference/handlers.md matches the handler classes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_committed_page_is_what_the_script_makes() -> None:
    spec = importlib.util.spec_from_file_location("h", DOCS / "generate_handlers.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    committed = (DOCS / "reference" / "handlers.md").read_text(encoding="utf-8")
    assert committed == module.page(), "run make docs"
