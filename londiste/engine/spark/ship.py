"""Takes this package to the executors: the program on the workers is always that of the driver.

An archive of its files goes with the session, and Spark unpacks it on every executor.  So a
cluster needs a Python with psycopg and pyarrow, and no installation of this package; and where
another version is installed, it is not used.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import londiste
from londiste.db.queries import sql_root

#: What Spark calls the archive, and the directory that it makes of it.
NAME = "londiste-package.zip"


def ship(context: Any) -> str:
    """Gives the archive to a SparkContext; what executors find it by.

    The file is in the directory that the context throws away at its end.
    """
    path = Path(context._temp_dir) / NAME
    pack(path)
    context.addArchive(str(path))
    return NAME


def pack(path: Path) -> None:
    """Writes the package as a wheel lays it out, SQL inside."""
    package = Path(londiste.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for root, inside in ((package, "londiste"), (sql_root(), "londiste/_sql")):
            for file in sorted(root.rglob("*")):
                parts = file.relative_to(root).parts
                if "__pycache__" in parts or not file.is_file():
                    continue
                if inside == "londiste" and parts[0] == "_sql":
                    continue
                archive.write(file, "/".join((inside, *parts)))
