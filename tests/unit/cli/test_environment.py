"""Variables by which processes of Londiste talk to each other: wrong ones are one-line errors."""

from __future__ import annotations

import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.daemon import child
from londiste.errors import BadOption


@pytest.mark.parametrize(
    "text", ["", "no json geheim", "[]", "[1]", "1", "null", '{"a": 1}', "[" * 100_000]
)
def test_hidden_arguments_that_are_none_are_refused(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LONDISTE_HIDDEN_ARGUMENTS", text)
    assert run(cli, ["replicate", "dbname=a", "dbname=b"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: LONDISTE_HIDDEN_ARGUMENTS: not what Londiste has written")
    assert "hint: unset LONDISTE_HIDDEN_ARGUMENTS" in printed
    assert "geheim" not in printed


def test_hidden_arguments_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONDISTE_HIDDEN_ARGUMENTS", '{"***": "secret"}')
    assert child.given() == {"***": "secret"}
    assert child.given() == {}
    monkeypatch.setenv("LONDISTE_HIDDEN_ARGUMENTS", '{"a": null}')
    with pytest.raises(BadOption):
        child.given()


@pytest.mark.parametrize(("file", "parent"), [("x", "1"), ("9999", "1"), ("0", "y"), ("-1", "1")])
def test_a_parent_that_is_none_is_refused(
    file: str,
    parent: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LONDISTE_PARENT_FILE", file)
    monkeypatch.setenv("LONDISTE_PARENT_PID", parent)
    monkeypatch.setenv("LONDISTE_PARENT_SIGNAL", "")
    assert run(cli, ["version"]) == 2
    assert "hint: unset LONDISTE_PARENT_FILE" in capsys.readouterr().err
