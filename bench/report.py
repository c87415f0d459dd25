"""Writes the tables of docs/benchmarks.md from the figures recorded in bench/recorded/.

    python -m bench.report

A table of the page is between ``<!-- figures: FILE/TABLE -->`` and ``<!-- end -->``.  The prose
around the tables is written by hand.  A benchmark with ``--record bench/recorded/FILE.json``
replaces the tables that it measures.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.support.common import markdown

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/benchmarks.md"
RECORDED = ROOT / "bench/recorded"
MARKED = re.compile(r"(<!-- figures: (\S+) -->\n)(?:(?!<!--).)*?(<!-- end -->\n)", re.DOTALL)


def main() -> None:
    """Writes the page, and names recorded tables that have no place on it."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    page, tables = PAGE.read_text(encoding="utf-8"), recorded()
    PAGE.write_text(with_tables(page, tables), encoding="utf-8")
    for name in sorted(set(tables) - set(places(page))):
        print(f"{name} has no place in {PAGE.relative_to(ROOT)}: add a marker with its name")


def recorded(folder: Path = RECORDED) -> dict[str, dict[str, Any]]:
    """Tables by the name of their file and their own."""
    return {
        f"{file.stem}/{name}": table
        for file in sorted(folder.glob("*.json"))
        for name, table in json.loads(file.read_text(encoding="utf-8")).items()
    }


def places(page: str) -> list[str]:
    """Names of the tables in a page, in their order."""
    return [found[2] for found in MARKED.finditer(page)]


def with_tables(page: str, tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The page with its tables as recorded.  Raises KeyError for a table that is not recorded."""

    def table(found: re.Match[str]) -> str:
        has = tables[found[2]]
        lines = markdown(has["columns"], has["rows"], has.get("labels", 1))
        return found[1] + "".join(f"{line}\n" for line in lines) + found[3]

    return MARKED.sub(table, page)


if __name__ == "__main__":
    main()
