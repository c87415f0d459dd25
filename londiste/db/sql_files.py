"""The SQL of the package: its folder, and the queries in it by name."""

from __future__ import annotations

import functools
from pathlib import Path

import londiste
from londiste.errors import InstallError


def sql_root() -> Path:
    """The SQL folder: ``londiste/_sql`` in a wheel, ``sql/`` beside an editable install."""
    package = Path(londiste.__file__).parent
    for candidate in (package / "_sql", package.parent / "sql"):
        if (candidate / "queries").is_dir():
            return candidate
    raise InstallError(
        "the SQL files of the package are missing",
        detail=f"looked in {package / '_sql'} and {package.parent / 'sql'}",
        hint="install the package again: pip install --force-reinstall londiste4-client",
    )


@functools.cache
def query(name: str) -> str:
    """The text of ``sql/queries/<name>.sql``."""
    return (sql_root() / "queries" / f"{name}.sql").read_text(encoding="utf-8")
