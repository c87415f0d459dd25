"""Connection strings for other programs of PostgreSQL: no secret is in their arguments.

Every user can list arguments.  The password goes by the environment.  libpq reads the other secrets
from a connection string or a service file only: they go by a service file that this user alone can
read, and that exists as long as the program runs.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from psycopg import conninfo, pq

from londiste.db import tls
from londiste.dsn import SECRETS
from londiste.errors import UsageError

_SERVICE = "londiste"
#: libpq refuses longer lines of a service file.
_LONGEST = 1000


@contextlib.contextmanager
def arguments_without_secrets(dsn: str) -> Iterator[tuple[str, dict[str, str]]]:
    """A connection string to show to others, and the environment that completes it.

    Raises UsageError for a secret that no service file can contain.
    """
    parts = {key: str(v) for key, v in conninfo.conninfo_to_dict(dsn).items() if v is not None}
    environment = dict(os.environ)
    secret = {key: value for key, value in parts.items() if key in SECRETS}
    service = parts.get("service") or environment.get("PGSERVICE")
    if secret and service:
        # A service of libpq wins over the environment, and there can be only one.
        parts.pop("service", None)
        environment.pop("PGSERVICE", None)
        parts = {**_of_service(service), **parts}
        secret = {key: value for key, value in parts.items() if key in SECRETS}
    parts |= tls.mode_for(parts)
    password = secret.pop("password", None)
    if password is not None:
        environment["PGPASSWORD"] = password
    shown = {key: value for key, value in parts.items() if key not in SECRETS}
    if not secret:
        yield conninfo.make_conninfo("", **shown), environment
        return
    with tempfile.TemporaryDirectory(prefix="londiste-") as directory:
        # mkdtemp: no other user can enter it.
        file = Path(directory) / "pg_service.conf"
        file.write_text(_section(secret), encoding="utf-8")
        file.chmod(0o600)
        environment["PGSERVICEFILE"] = os.fspath(file)
        yield conninfo.make_conninfo("", **shown, service=_SERVICE), environment


def _section(values: Mapping[str, str]) -> str:
    """Pure: a service file with these values."""
    for key, value in values.items():
        odd = value != value.strip() or "\n" in value or len(value.encode()) > _LONGEST
        if odd:
            raise UsageError(
                f"{key} of the connection string cannot be passed to another program",
                detail=f"it is longer than {_LONGEST} bytes, or white space is at its start or end",
                hint="store it in a service file (~/.pg_service.conf), and write service=NAME",
            )
    return "".join([f"[{_SERVICE}]\n", *(f"{key}={value}\n" for key, value in values.items())])


def _of_service(name: str) -> dict[str, str]:
    """What a service of libpq defines, as libpq reads it."""
    before = os.environ.pop("PGSERVICE", None)
    try:
        plain = _defaults()
        os.environ["PGSERVICE"] = name
        found = _defaults()
    finally:
        os.environ.pop("PGSERVICE", None)
        if before is not None:
            os.environ["PGSERVICE"] = before
    return {k: v for k, v in found.items() if v != plain.get(k) and k != "service"}


def _defaults() -> dict[str, str]:
    return {
        option.keyword.decode(): option.val.decode()
        for option in pq.Conninfo.get_defaults()
        if option.val is not None
    }
