"""Documents of ``--json``: their values, their types, and errors."""

from __future__ import annotations

import ast
import inspect
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import click
import pytest

from londiste.cli import cli, documents, errors, output
from londiste.cli.documents import Rows, plain
from londiste.db.names import TableName
from londiste.errors import StateError
from londiste.monitor.queues.model import Finding, Severity
from londiste.pgq.types import Event
from tests.support.documents import GENERATE, check, mistakes, schema

COMMANDS: dict[str, tuple[Any, ...]] = dict(GENERATE["commands"]())


def test_values_have_the_forms_of_json() -> None:
    summer = timezone(timedelta(hours=3))
    event = Event(1, datetime(2026, 7, 1, 12, 0, 0, 5, summer), 2, None, "t", "d", *[None] * 4)
    assert plain({"lag": timedelta(minutes=1, milliseconds=500), "events": (event,)}) == {
        "lag": 60.5,
        "events": [
            {**event._asdict(), "time": "2026-07-01T09:00:00.000005Z"},
        ],
    }
    assert plain(TableName("a b", "c")) == "a b.c"
    assert plain({"b", "a"}) == ["a", "b"]
    found = plain(Finding(Severity.CRITICAL, "lag", "x", "y", "z"))
    assert (found["severity"], found["sql"]) == ("critical", [])


def test_a_document_is_one_line_with_the_version_first(capsys: pytest.CaptureFixture[str]) -> None:
    name = "é\n\x9b\u202e\U000e0001"
    output.as_json({"name": name})
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "é" in out and out.rstrip("\n").isprintable()
    assert list(json.loads(out).items()) == [("version", documents.VERSION), ("name", name)]


def test_text_for_programs_is_exact_but_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output.exact("a\x9b\n\tb\n")
    assert capsys.readouterr().out == "a\x9b\n\tb\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    output.exact("a\x9b\n\tb\n")
    assert capsys.readouterr().out == "a\\x9b\n\tb\n"


def test_rows_are_a_list_below_their_key_or_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    @dataclass
    class Row:
        name: str
        lag: timedelta

    rows = Rows("things", Row)
    output.show(rows, [Row("a", timedelta(seconds=90))], json_wanted=True)
    assert json.loads(capsys.readouterr().out)["things"] == [{"name": "a", "lag": 90.0}]
    output.show(rows, [Row("a", timedelta(seconds=90))], json_wanted=False)
    assert capsys.readouterr().out.split() == ["name", "lag", "a", "1m30s"]


class _Sample(TypedDict):
    """A sample.

    at -- when.
    """

    at: datetime
    took: timedelta | None
    more: NotRequired[dict[str, int]]


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, ""),
        ({"took": 1.5, "more": {"a": 1}}, ""),
        ({"took": "1 s"}, "document.took"),
        ({"at": "2026-07-01T09:00:00+00:00"}, "document.at"),
        ({"more": {"a": None}}, "document.more.a"),
        ({"other": 1}, "unknown key other"),
        ({"version": None}, "document.version"),
    ],
)
def test_a_wrong_document_is_noticed(change: dict[str, Any], wrong: str) -> None:
    good = {"version": documents.VERSION, "at": "2026-07-01T09:00:00Z", "took": None}
    of = schema(_Sample)
    found = mistakes({**good, **change}, of, of, "document")
    assert wrong in " ".join(found) if wrong else not found
    without = {key: value for key, value in good.items() if key != "took"}
    assert mistakes(without, of, of, "document") == ["document: no key took"]


def failing(error: BaseException, done: list[str] | None = None) -> click.Command:
    @click.command()
    @click.option("--json", "as_json", is_flag=True)
    def command(as_json: bool) -> None:
        with errors.also_told(**({} if done is None else {"done": done})):
            raise error

    return command


def test_an_error_is_a_document_beside_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    error = StateError("1 tables are\nmissing", hint="londiste missing")
    command = failing(error, ["one"])
    assert errors.run(command, []) == 3
    told = capsys.readouterr()
    assert told.out == ""
    assert errors.run(command, ["--json"]) == 3
    again = capsys.readouterr()
    assert again.err == told.err
    document = json.loads(again.out)
    assert document == {
        "version": documents.VERSION,
        "error": "1 table is missing",
        "detail": None,
        "hint": "londiste missing",
        "exit_code": 3,
        "done": ["one"],
    }
    check(document, [])


@pytest.mark.parametrize(
    ("argv", "code", "word"),
    [
        (["--json", "--wrong"], 2, "no such option"),
        (["--json", "word"], 2, "unexpected extra argument"),
    ],
)
def test_a_wrong_call_is_a_document(
    argv: list[str], code: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert errors.run(failing(ValueError()), argv) == code
    found = json.loads(capsys.readouterr().out)
    assert (found["exit_code"], word in found["error"]) == (code, True)


def test_a_bug_and_an_interruption_are_documents(capsys: pytest.CaptureFixture[str]) -> None:
    for error, code in ((ValueError("x"), 70), (KeyboardInterrupt(), 130)):
        assert errors.run(failing(error), ["--json"]) == code
        assert json.loads(capsys.readouterr().out)["exit_code"] == code
    # What an earlier call has told is forgotten.
    assert errors.run(cli, ["status", "--json", "--wrong"]) == 2
    assert "done" not in json.loads(capsys.readouterr().out)


def test_every_command_with_json_has_types() -> None:
    assert len(COMMANDS) > 80
    for name, kinds in COMMANDS.items():
        assert kinds, name
        for kind in kinds:
            assert schema(kind)["properties"]["version"], name


def _columns(call: ast.Call) -> list[str]:
    """The columns of a table that are written in the code."""
    if not call.args or not isinstance(call.args[0], ast.List):
        return []
    return [one.value for one in call.args[0].elts if isinstance(one, ast.Constant)]


def test_columns_have_the_names_of_the_keys() -> None:
    keys: dict[Path, set[str]] = {}
    for name, kinds in COMMANDS.items():
        command: Any = cli
        for word in name.split():
            command = command.get_command(click.Context(command), word)
        path = Path(inspect.getfile(inspect.unwrap(command.callback)))
        of_module = keys.setdefault(path, set())
        of_module.update(*(_keys(schema(kind)) for kind in kinds))
    # Tables with a line for each fact.
    vertical = {"what", "value", "queue", "parameter", "meaning"}
    seen = 0
    for path, known in keys.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "table":
                columns = _columns(node)
                seen += len(columns)
                assert set(columns) <= known | vertical, (path, set(columns) - known)
    assert seen > 50


def _keys(found: Any) -> set[str]:
    if not isinstance(found, dict):
        return set()
    own = set(found.get("properties", ()))
    return own.union(*(_keys(value) for value in found.values()))


def test_times_are_compared_in_utc() -> None:
    assert plain(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00Z"
