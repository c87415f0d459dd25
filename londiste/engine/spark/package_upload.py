"""Upload of this package to the executors, so that they run the driver's version.

An archive of its files goes with the session, and Spark unpacks it on every executor.  So a
cluster needs a Python with psycopg and pyarrow, and no installation of this package; and where
another version is installed, it is not used.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import londiste
from londiste.db.queries import sql_root

#: The directory that Spark makes of the archive, in one that its Python workers import from.
NAME = "londiste"

#: Masters whose executors are processes of this host, with this program's installation.
_HERE = re.compile(r"local(-cluster)?(\[|$)")


def is_needed(master: str) -> bool:
    """Whether executors of this master have another installation than this program, or none."""
    return _HERE.match(master) is None


def ship(context: Any) -> str:
    """Gives the archive to a SparkContext, once; the name of its directory in the executors.

    The file is in the directory that the context throws away at its end.
    """
    path = Path(context._temp_dir) / f"{NAME}-package.zip"
    if not path.exists():
        pack(path)
        context.addArchive(f"{path}#{NAME}")
    return NAME


def pack(path: Path) -> None:
    """Writes the files of the package, SQL inside: what its directory has to hold."""
    package = Path(londiste.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for root, inside in ((package, ""), (sql_root(), "_sql/")):
            for file in sorted(root.rglob("*")):
                parts = file.relative_to(root).parts
                if "__pycache__" in parts or not file.is_file():
                    continue
                if not inside and parts[0] == "_sql":
                    continue
                archive.write(file, inside + "/".join(parts))
