"""Build hook: the modules of the small distribution, from the checkout beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Modules(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the modules to a wheel; an editable installation finds them in the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":
            return
        checkout = Path(self.root).parent
        for path in self.config["modules"]:
            build_data["force_include"][str(checkout / path)] = path
        build_data["force_include"][str(checkout / "sql" / "queries")] = "londiste/_sql/queries"
