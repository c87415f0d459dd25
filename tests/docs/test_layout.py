"""The tree stays one that can be read: sizes of files and folders, and no circle of imports."""

from __future__ import annotations

import ast
import subprocess
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.docs.test_layers import PACKAGE, ROOT

LINES = 450
MODULES = 20

#: Sub-packages of replication; imports go to a lower line, or stay on their own.
REPLICATION = (
    ("worker", "failover"),
    ("commands",),
    ("apply", "parallel", "forwarding", "tablesync", "ddl"),
    (
        "model",
        "sqlapi",
        "patterns",
        "registration_filter",
        "coverage",
        "lost_rows",
        "branch_rows",
        "replicated_rows",
        "notifications",
        "renamed_tables",
        "replication_role",
    ),
)


def tracked() -> list[Path]:
    """Python files of the repository; all files of the folder where there is no git."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a checkout")
    return [ROOT / name for name in listed if (ROOT / name).exists()]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULE_PATHS = {module_name(path): path for path in PACKAGE.rglob("*.py")}


@cache
def imported(path: Path) -> set[str]:
    """Modules of the program that a module imports: anywhere in it, also for types only."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in MODULE_PATHS else node.module)
    return found & set(MODULE_PATHS)


def test_no_file_is_too_long_to_read() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in tracked()
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > LINES
    }
    assert not long


def test_no_folder_is_too_full_to_survey() -> None:
    folders = Counter(
        path.parent.relative_to(ROOT) for path in tracked() if path.name != "__init__.py"
    )
    assert not {str(folder): count for folder, count in folders.items() if count > MODULES}


def test_imports_make_no_circle() -> None:
    # The package itself offers its public names when they are asked for.
    graph = {
        name: imported(path) - {name} for name, path in MODULE_PATHS.items() if name != "londiste"
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_replication_has_an_order_inside() -> None:
    line = {name: number for number, names in enumerate(REPLICATION) for name in names}
    inside = {
        path.relative_to(PACKAGE / "replication").with_suffix("").parts[0]: None
        for path in (PACKAGE / "replication").rglob("*.py")
    }
    assert set(inside) - {"__init__"} == set(line)
    wrong = []
    for name, path in MODULE_PATHS.items():
        if not name.startswith("londiste.replication."):
            continue
        own = name.split(".")[2]
        for other in imported(path):
            if not other.startswith("londiste.replication."):
                continue
            below = other.split(".")[2]
            if below != own and (line[below] < line[own] or {own, below} == {"worker", "failover"}):
                wrong.append(f"{name} imports {other}")
    assert not wrong


def test_only_commands_and_moves_start_a_worker() -> None:
    users = {
        name
        for name, path in MODULE_PATHS.items()
        if any(other.startswith("londiste.replication.worker") for other in imported(path))
    }
    assert {name.split(".")[1] for name in users} <= {"cli", "migrate", "replication"}
    assert all(
        name.startswith("londiste.replication.worker")
        for name in users
        if name.split(".")[1] == "replication"
    )
