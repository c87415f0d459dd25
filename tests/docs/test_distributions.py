"""The two distributions own disjoint parts of the package, and the small one is closed."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import londiste
from tests.docs.test_layers import PACKAGE, ROOT
from tests.docs.test_layout import MODULE_PATHS, imported

#: Imports of the client that only commands of the full distribution reach, or type checkers;
#: and those of an endpoint, whose absence the client reports.
REACHED_BY_COMMANDS = {
    "londiste.cli.start",
    "londiste.handlers.registry",
    "londiste.monitor.queues.model",
    *(f"londiste.metrics.{name}" for name in ("daemons", "endpoint", "tally")),
}
#: Import names of what the client requires.
REQUIRED = {"psycopg", "click", "pydantic", "pydantic_settings", "londiste"}


def project(folder: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))


def wheel(folder: str) -> dict[str, Any]:
    return dict(project(folder)["tool"]["hatch"]["build"]["targets"]["wheel"])


CLIENT = wheel("client")["hooks"]["custom"]["modules"]
OWNED = [ROOT / path for path in CLIENT]


def owned(path: Path) -> bool:
    return any(path == one or one in path.parents for one in OWNED)


def test_the_full_distribution_excludes_what_the_client_owns() -> None:
    assert wheel(".")["exclude"] == [f"/{path}" for path in CLIENT]
    assert all(path.exists() for path in OWNED)
    folders = {path.parent.name for path in ROOT.glob("sql/*/component.toml")}
    assert set(wheel(".")["force-include"]) == {f"sql/{name}" for name in folders}


def test_the_client_imports_nothing_of_the_rest() -> None:
    wrong = {}
    for name, path in MODULE_PATHS.items():
        if not owned(path):
            continue
        beyond = {m for m in imported(path) if not owned(MODULE_PATHS[m])} - REACHED_BY_COMMANDS
        others = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                others |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                others.add(node.module.partition(".")[0])
        if beyond or others - REQUIRED - sys.stdlib_module_names:
            wrong[name] = beyond | (others - REQUIRED - sys.stdlib_module_names)
    assert not wrong
    assert owned(PACKAGE / "consumer" / "runner.py")


def test_both_have_the_version_of_the_package() -> None:
    assert f"londiste4-client=={londiste.__version__}" in project(".")["project"]["dependencies"]
    for folder in (".", "client"):
        assert project(folder)["project"]["dynamic"][0] == "version"
    assert re.fullmatch(r"\d+\.\d+\.\d+", londiste.__version__)


def test_the_client_has_the_requirements_of_the_full_distribution() -> None:
    full = set(project(".")["project"]["dependencies"])
    assert set(project("client")["project"]["dependencies"]) <= full
    assert (ROOT / "client/LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def page_of_the_index() -> str:
    """The README as the package index shows it."""
    hook = project(".")["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = "".join(
        one["text"] if "text" in one else (ROOT / one["path"]).read_text(encoding="utf-8")
        for one in hook["fragments"]
    )
    for one in hook["substitutions"]:
        text = re.sub(one["pattern"], one["replacement"], text)
    return text


def test_no_link_of_a_distribution_leads_nowhere() -> None:
    text, client = page_of_the_index(), (ROOT / "client/README.md").read_text(encoding="utf-8")
    assert "folder `docs`" in text and "| Quickstart |" in text
    for page in (text, client):
        # The index shows a page without its neighbours.
        assert not re.findall(r"\]\((?!https://)[^)]+\)", page)
    # There is no public address yet that could be named.
    assert "https://" not in text + client
    assert "urls" not in project(".")["project"] | project("client")["project"]


def test_the_links_of_the_readme_lead_to_files_and_headings() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", text)
    assert len(links) > 10
    for path, heading in links:
        assert (ROOT / path).is_file(), path
        if heading:
            titles = re.findall(r"(?m)^#+ (.+)$", (ROOT / path).read_text(encoding="utf-8"))
            assert heading in {
                re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in titles
            }
