"""Every supported release of PostgreSQL, and every pair of them."""

from __future__ import annotations

import os

import pytest

from londiste.embedded.binaries import available_versions
from tests.versions.packages import NoPackage, bindir_of

RELEASES = (14, 15, 16, 17, 18)


def use_release(version: int) -> None:
    """Makes the programs of a release available to this process; skips where there are none."""
    if version in available_versions():
        return
    try:
        bindir = bindir_of(version)
    except NoPackage as missing:
        pytest.skip(f"no PostgreSQL {version}: {missing}")
    given = os.environ.get("LONDISTE_PGBIN", "")
    os.environ["LONDISTE_PGBIN"] = os.pathsep.join(filter(None, [given, str(bindir)]))
