"""The picture of the README is what its command makes, and shows commands that exist."""

from __future__ import annotations

import shlex
import xml.etree.ElementTree as ElementTree

import click

from londiste.cli import cli
from tests.docs.test_hints import called, options
from tests.docs.test_layers import ROOT
from tests.support.pages.demo_picture import demo_picture

LINES = demo_picture.lines_of(demo_picture.PICTURE.read_text(encoding="utf-8"))


def test_the_picture_is_what_its_command_makes_of_its_lines() -> None:
    picture = demo_picture.PICTURE.read_text(encoding="utf-8")
    assert demo_picture.svg(LINES) == picture
    assert LINES[0] == demo_picture.PROMPT
    assert "all tables are equal" in LINES
    ElementTree.fromstring(picture)


def test_the_readme_shows_it_by_a_link_that_the_package_index_can_follow() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "![Output of londiste demo](docs/demo.svg)" in text


def test_the_commands_in_the_picture_exist() -> None:
    commands = [line for line in LINES if line.startswith("$ londiste ")]
    assert len(commands) > 10
    for line in commands:
        command, rest = called(shlex.split(line.removeprefix("$ londiste ")))
        assert isinstance(command, click.Command) and command is not cli, line
        assert {word for word in rest if word.startswith("--")} <= options(command), line


def test_the_form_of_lines_ignores_figures_and_the_order_of_tables() -> None:
    one = [
        "starting",
        "  a ━━━ 100 % 5 rows 1.5 MB 0:00… ok",
        "  b ━━ 100 % 1,234 rows 0.0 MB 0:01… ok",
    ]
    two = [
        "starting",
        "  b ━━ 100 % 7 rows 10.0 MB 0:00… ok",
        "  a ━ 100 % 55 rows 0.1 MB 0:00… ok",
    ]
    assert demo_picture.form(one) == demo_picture.form(two)
    assert demo_picture.form(one) != demo_picture.form([*two, "more"])
