"""Whether a program and the SQL of a database fit each other."""

from __future__ import annotations

import pytest

from londiste.install.compat import Compat, compat, outdated
from londiste.install.ledger import Installed
from londiste.install.source import Component
from tests.unit.ddl.test_install_plan import FIRST, SECOND, component, file, installed

AFTER = "upgrades/4.1.0/after-01-drop-old.sql"
NEXT_MAJOR = component("5.0.0", *FIRST.files)
EDITED = component("4.1.0", *SECOND.files[:2], file("upgrades/4.1.0/01-paused.sql", "edited"))
CHANGED = component("4.0.0", *FIRST.files[:2], file(FIRST.files[2].path, "new text"))


@pytest.mark.parametrize(
    ("program", "database", "expected"),
    [
        (FIRST, Installed(), Compat.MISSING),
        (FIRST, Installed(schema_exists=True), Compat.MISSING),
        (FIRST, installed(FIRST), Compat.SAME),
        (SECOND, installed(FIRST), Compat.OLDER),
        (CHANGED, installed(FIRST), Compat.OLDER),
        (SECOND, installed(SECOND, without=("upgrades/4.1.0/01-paused.sql",)), Compat.OLDER),
        (SECOND, installed(SECOND, without=(AFTER,)), Compat.SAME),
        (FIRST, installed(SECOND, without=(AFTER,)), Compat.NEWER),
        (FIRST, installed(SECOND), Compat.NEWER_BREAKING),
        (FIRST, installed(NEXT_MAJOR), Compat.NEWER_BREAKING),
        (EDITED, installed(SECOND), Compat.EDITED),
        (FIRST, Installed(schema_exists=True, extension="pgq"), Compat.OWNED_BY_EXTENSION),
    ],
)
def test_program_and_database(program: Component, database: Installed, expected: Compat) -> None:
    assert compat(program, database) is expected


def test_an_older_schema_of_the_same_number_is_named_by_what_it_lacks() -> None:
    path = CHANGED.files[2].path
    assert outdated(CHANGED, installed(FIRST)) == f"lacks the present text of {path}"
    assert outdated(SECOND, installed(FIRST)) == "has version 4.0.0, this program needs 4.1.0"
    without = installed(SECOND, without=("upgrades/4.1.0/01-paused.sql", CHANGED.files[0].path))
    assert outdated(SECOND, without).endswith("upgrades/4.1.0/01-paused.sql and 1 more")


def test_a_daemon_works_with_the_same_and_with_what_still_has_all_it_calls() -> None:
    assert {state for state in Compat if state.fits} == {Compat.SAME, Compat.NEWER}
