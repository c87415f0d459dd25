"""Imports point down the layers of docs/design/architecture.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "londiste"


@cache
def layers() -> dict[str, int]:
    """Package -> layer, read from the picture in the design chapter."""
    text = (ROOT / "docs/design/architecture.md").read_text(encoding="utf-8")
    found: dict[str, int] = {}
    for line in text.splitlines():
        match = re.match(r" (\d)  ([a-z ]+?)(?:\s{3,}[^\s].*)?$", line)
        if match:
            words = re.split(r"\s{2,}(?=\S)", line[4:].strip())[0:4]
            for word in re.findall(r"[a-z_]+", line[4:48]):
                if (PACKAGE / word).is_dir() or (PACKAGE / f"{word}.py").exists():
                    found[word] = int(match.group(1))
            assert words
    return found


def imports(path: Path) -> Iterator[str]:
    """First part below ``londiste`` of everything a module imports, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
            if node.module == "londiste":
                names = [f"londiste.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "londiste" and len(parts) > 1:
                yield parts[1]


def above(path: Path, known: dict[str, int]) -> set[str]:
    """Other packages that a module imports and that are not below its own."""
    own = path.relative_to(PACKAGE).parts[0]
    return {
        other
        for other in imports(path)
        if other in known and other != own and known[other] >= known[own]
    }


def test_the_picture_names_every_package() -> None:
    packages = {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists()}
    assert packages <= set(layers()), packages - set(layers())


def test_modules_import_only_from_their_own_layer_or_below() -> None:
    known = layers()
    wrong = {
        str(path.relative_to(PACKAGE)): sorted(found)
        for path in sorted(p for p in PACKAGE.rglob("*.py") if p.parent != PACKAGE)
        if (found := above(path, known))
    }
    assert not wrong


def test_only_the_spark_engine_imports_pyspark() -> None:
    for path in PACKAGE.rglob("*.py"):
        if "engine/spark" in path.as_posix():
            continue
        assert not re.search(r"(?m)^\s*(import|from) pyspark", path.read_text(encoding="utf-8")), (
            path
        )


#: They open sessions on servers of their own.
OWN_SERVERS = {"embedded/postgres.py", "demo/data.py", "demo/writer.py"}
#: They make findings of schemas that are not trusted, or name no schema of Londiste.
UNGUARDED = {"db/connection.py", "monitor/doctor/collect.py", "monitor/doctor/examine.py"}


def test_every_session_asks_who_owns_the_schemas() -> None:
    """``db.connection.connect`` does; nothing else opens a session, and few tell it not to."""
    opened, unguarded = set(), set()
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        source = path.read_text(encoding="utf-8")
        if "psycopg" not in source and "guarded" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "psycopg.connect",
                "psycopg.Connection.connect",
            ):
                opened.add(name)
            if isinstance(node, ast.keyword) and node.arg == "guarded":
                unguarded.add(name)
    assert opened == OWN_SERVERS
    assert unguarded == UNGUARDED
