"""The types page names every type and table layout of the type matrix."""

from __future__ import annotations

import re
from pathlib import Path

from tests.fixtures.values import ALL_TYPES
from tests.support.type_matrix import SHAPES

PAGE = (Path(__file__).parents[2] / "docs/reference/types.md").read_text(encoding="utf-8")


def rows(heading: str) -> str:
    """The first columns of the table below a heading."""
    part = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return "\n".join(line.split("|")[1] for line in part.split("\n") if line.startswith("| "))


def test_every_type_of_the_matrix_is_on_the_page() -> None:
    found = rows("Types")
    for name in ALL_TYPES:
        base = re.sub(r"[(].*|\[\]", "", name)
        if base.startswith("public.fix_"):
            continue
        assert f"`{base.removeprefix('public.')}`" in found, name


def test_every_shape_of_the_matrix_is_on_the_page() -> None:
    found = {name.strip() for line in rows("Shapes").split("\n") for name in line.split(",")}
    assert set(SHAPES) <= found
    assert len(found) > len(SHAPES)
