"""Real applications: packages from PyPI, setup of their databases, writers."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg import conninfo

HERE = Path(__file__).parent

_TRYTON_MODULES = (
    *("ir", "res", "country", "party", "company", "currency", "product", "account"),
    *("account_invoice", "account_invoice_stock", "account_product", "sale", "purchase", "stock"),
)


@dataclass(frozen=True)
class Kind:
    """An application; its database has its name ({database} in a command).

    setup -- arguments of its Python, one command after another, that fill an empty database.
    database -- the variables that tell it where its database is.
    rounds -- how many rounds of its writer are in the database.
    tables -- it has at least as many.
    add -- options of ``add-table`` on the root.
    free_sequences -- some of its sequences are of no column.
    schema -- who makes the structure when it moves: ``migrate start --schema``.
    script, noted -- arguments that print the SQL of its next release, and that note it as done.
    """

    name: str
    requirements: tuple[str, ...]
    setup: tuple[tuple[str, ...], ...]
    writer: Path
    database: Callable[[str], Mapping[str, str]]
    rounds: str
    tables: int
    add: tuple[str, ...]
    schema: str
    free_sequences: bool = False
    script: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()

    def environment(self, dsn: str) -> dict[str, str]:
        """The environment of its processes."""
        return {"PYTHONPATH": f"{HERE}:{self.writer.parent}", **self.database(dsn)}


def _django(dsn: str) -> Mapping[str, str]:
    return {"APPLICATION_DB": dsn, "DJANGO_SETTINGS_MODULE": "site_settings"}


def _tryton(dsn: str) -> Mapping[str, str]:
    parts = conninfo.conninfo_to_dict(dsn)
    address = "{user}:{password}@{host}:{port}".format_map(parts)
    return {
        "TRYTOND_DATABASE_URI": f"postgresql://{address}/",
        "DB_NAME": str(parts["dbname"]),
        "TRYTONPASSFILE": str(HERE / "tryton_site" / "admin_password.txt"),
    }


DJANGO = Kind(
    name="django",
    requirements=("Django>=5.2,<6.1", "wagtail>=7,<9", "psycopg[binary]>=3.2,<4"),
    setup=(
        ("-m", "django", "migrate", "--verbosity", "0"),
        # Back before the next release.
        ("-m", "django", "migrate", "--verbosity", "0", "shop", "0001"),
    ),
    writer=HERE / "django_site" / "writer.py",
    database=_django,
    rounds="select count(*) from shop_round",
    tables=55,
    add=(),
    schema="pg_dump",
    script=("-m", "django", "sqlmigrate", "shop", "0002"),
    noted=("-m", "django", "migrate", "--verbosity", "0", "--fake", "shop", "0002"),
)

TRYTON = Kind(
    name="tryton",
    requirements=(
        "trytond>=8,<9",
        "proteus>=8,<9",
        "psycopg[binary,pool]>=3.2,<4",
        *(f"trytond-{name.replace('_', '-')}>=8,<9" for name in _TRYTON_MODULES[2:]),
    ),
    setup=(
        (
            *("-c", "from trytond.cli.admin import main; main()", "--database", "{database}"),
            *("--email", "admin@example.org", "--language", "en"),
            *("--activate-dependencies", "--update", *_TRYTON_MODULES),
        ),
        (str(HERE / "tryton_site" / "prepare.py"),),
    ),
    writer=HERE / "tryton_site" / "writer.py",
    database=_tryton,
    rounds="select count(*) from country_country where name like 'round %'",
    tables=220,
    # Two of its tables have no key.
    add=("--whole-row",),
    schema="create",
    free_sequences=True,
)


def python_of(kind: Kind, directory: Path) -> Path:
    """The Python of a virtual environment with the application; the test is skipped without.

    directory -- where environments are kept for the next run, one for each list of requirements.
    """
    mark = hashlib.sha256(repr((sys.version, kind.requirements)).encode()).hexdigest()[:12]
    home = directory / f"{kind.name}-{mark}"
    python, ready = home / "bin" / "python", home / "ready"
    with (directory / f"{home.name}.lock").open("w") as lock:
        # Several pytest processes share it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
            done = subprocess.run(
                [python, "-m", "pip", "install", "--quiet", *kind.requirements],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                said = done.stderr.strip().splitlines() or ["no message"]
                pytest.skip(f"{kind.name} cannot be installed from PyPI: {said[-1]}")
            ready.touch()
    return python
