"""Every command, setting and error is documented, and nothing is documented that is not there."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from bench import report
from londiste import errors, settings
from londiste.cli import COMMANDS, cli
from londiste.cli.lazy import LazyGroup

DOCS = Path(__file__).parents[2] / "docs"


def text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def every_command(group: LazyGroup, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """All commands with the words that call them: ``status``, ``queue create``, …"""
    for name, entry in group.table.items():
        command = group.load(name, entry)
        if isinstance(command, LazyGroup):
            yield from every_command(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


assert isinstance(cli, LazyGroup)
ALL = dict(every_command(cli))


@pytest.mark.parametrize("name", ALL)
def test_a_command_exists_and_its_options_are_documented(name: str) -> None:
    command = ALL[name]
    assert command.name == name.split()[-1]
    assert command.help
    page = text("reference/commands.md")
    section = re.search(rf"(?ms)^### `{re.escape(name)}[ `].*?(?=^##|\Z)", page)
    assert section, f"docs/reference/commands.md has no section for {name}"
    commands = command.commands.values() if isinstance(command, click.Group) else [command]
    for each in commands:
        for parameter in each.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                longest = max(parameter.opts, key=len)
                assert f"`{longest}" in section.group(0), f"{name}: {longest} is not documented"


def test_the_page_documents_no_command_that_is_not_there() -> None:
    named = re.findall(r"(?m)^### `([a-z-]+(?: [a-z-]+)*)", text("reference/commands.md"))
    assert sorted(named) == sorted(ALL)


def test_help_lists_every_command_without_importing_spark_or_command_modules() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from londiste.cli import cli\n"
        "print(cli.get_help(__import__('click').Context(cli)))\n"
        "heavy = ('pyspark', 'pandas', 'pyarrow', 'rich')\n"
        "loaded = [m for m in sys.modules if m.startswith(heavy)]\n"
        "assert not loaded, loaded"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    for name, entry in COMMANDS.items():
        assert bool(re.search(rf"(?m)^  {name}\s", out)) is not entry.hidden, name
    assert cli.name == "cli"


def test_the_page_of_settings_is_what_the_script_makes() -> None:
    generate = runpy.run_path(str(DOCS / "generate_settings.py"))
    made = generate["page"]()
    assert text("reference/settings.md") == made, "run make docs"
    for kind in (settings.WorkerSettings, settings.TickerSettings, settings.ConsumerSettings):
        for key in kind.model_fields:
            assert f"| `{key}` |" in made


def test_the_page_of_metrics_is_what_the_script_makes() -> None:
    generate = runpy.run_path(str(DOCS / "generate_metrics.py"))
    assert text("reference/metrics.md") == generate["page"](), "run make docs"


def test_the_page_of_json_is_what_the_script_makes() -> None:
    generate = runpy.run_path(str(DOCS / "generate_json.py"))
    made = generate["page"]()
    assert text("reference/json.md") == made, "run make docs"
    for name, command in ALL.items():
        if any("--json" in option.opts for option in command.params):
            hidden = COMMANDS[name.split()[0]].hidden
            assert (f"### `londiste {name}`" in made) is not hidden, name


def test_the_page_of_findings_is_what_the_script_makes() -> None:
    generate = runpy.run_path(str(DOCS / "generate_findings.py"))
    made = generate["page"]()
    assert text("reference/findings.md") == made, "run make docs"
    assert len(generate["alerts"]()) == text("../londiste/metrics/share/rules.yml").count("alert: ")


def test_the_documents_of_the_console_are_what_the_script_makes() -> None:
    pytest.importorskip("starlette", reason="needs the extra web")
    generate = runpy.run_path(str(DOCS / "generate_console.py"))
    assert text("reference/console-api.md") == generate["page"](), "run make docs"
    assert text("reference/console-api.json") == generate["schema"](), "run make docs"


def test_the_page_of_benchmarks_is_what_the_recorded_figures_make() -> None:
    page, tables = text("benchmarks.md"), report.recorded()
    assert report.with_tables(page, tables) == page, "run make docs"
    assert sorted(report.places(page)) == sorted(tables)


def test_every_error_class_and_sqlstate_is_documented() -> None:
    page = text("reference/errors.md")
    classes = [errors.LondisteError]
    for cls in classes:
        classes.extend(cls.__subclasses__())
    for cls in classes:
        if cls.__module__ == "londiste.errors":
            assert re.search(rf"\| `{cls.__name__}` \| {cls.exit_code} \|", page), cls.__name__
    for state in errors.LD_CLASSES:
        assert f"`{state}`" in page, state


ROOT = DOCS.parent
PAGES = [
    *DOCS.rglob("*.md"),
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "sql/README.md", "examples/README.md")
    ),
]


def prose(page: Path) -> str:
    return re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """What the headings of a page can be called by in links."""
    headings = re.findall(r"(?m)^#+ (.*)$", prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target, _, anchor in (
        link.partition("#") for link in re.findall(r"\]\(([^):]+)\)", prose(page))
    ):
        other = (page.parent / target) if target else page
        assert other.exists(), f"{page}: {target}"
        assert not anchor or anchor in anchors(other), f"{page}: {target}#{anchor}"


def test_every_page_is_linked_from_the_index() -> None:
    linked = {
        (DOCS / target).resolve()
        for target in re.findall(r"\]\(([^)#:]+)", prose(DOCS / "index.md"))
    }
    of_the_reference = set((DOCS / "reference/sql").glob("*.md"))
    assert set(DOCS.rglob("*.md")) - of_the_reference - {DOCS / "index.md"} <= linked


def test_the_changelog_says_nothing_twice() -> None:
    entries = re.findall(r"(?m)^- (.{30})", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert [entry for entry in entries if entries.count(entry) > 1] == []
