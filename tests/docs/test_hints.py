"""Hints of messages name existing commands, options and SQL functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

import londiste
from londiste.cli import cli
from londiste.cli import hints as hints_of_calls
from londiste.cli.errors import _lookup
from londiste.cli.lazy import LazyGroup

ROOT = Path(londiste.__file__).parents[1]
PYTHON = sorted((ROOT / "londiste").rglob("*.py"))
SQL = sorted((ROOT / "sql").rglob("*.sql"))

#: Words behind "londiste" in messages that are no commands.
PROSE = {"consumer", "daemon", "is", "position", "producer", "shell", "trigger"}

#: Statements of the shell begin like this.
SHELL = {"add", "remove"}


class Text(str):
    """A string of a source file; where it is written goes along."""

    where: str

    @classmethod
    def at(cls, text: str, path: Path, line: int | None = None) -> Text:
        made = cls(text)
        made.where = str(path.relative_to(ROOT)) + (f":{line}" if line else "")
        return made


def python_texts(path: Path) -> Iterator[Text]:
    """The strings of a module but its docstrings; ``X`` stands for what is put in."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    inside: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inside.add(id(node.value))
        elif isinstance(node, ast.keyword) and node.arg == "name":
            # Sessions are named after what they are for.
            inside.add(id(node.value))
        elif isinstance(node, ast.JoinedStr) and id(node) not in inside:
            inside.update(id(part) for part in node.values)
            yield Text.at(
                "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "X"
                    for part in node.values
                ),
                path,
                node.lineno,
            )
    for node in nodes:
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in inside
        ):
            yield Text.at(node.value, path, node.lineno)


def hints(path: Path) -> Iterator[Text]:
    """The strings of a module that are given as ``hint=`` or kept in constants named so."""
    source = path.read_text(encoding="utf-8")
    constants = "HINT" in source
    if not constants and "hint" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        given = isinstance(node, ast.keyword) and node.arg == "hint"
        kept = constants and isinstance(node, ast.Assign) and "HINT" in ast.unparse(node.targets[0])
        if given or kept:
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield Text.at(part.value, path, part.lineno)


def sql_texts(path: Path) -> Iterator[Text]:
    """The literals of a file, those that are put together as one."""
    source = re.sub(r"(?s)/\*.*?\*/|--[^\n]*", "", path.read_text(encoding="utf-8"))
    source = re.sub(r"'\s*\|\|\s*'|'\s*\n\s*'", "", source)
    for found in re.finditer(r"'((?:[^']|'')*)'", source):
        yield Text.at(found[1].replace("''", "'"), path)


@cache
def texts() -> list[Text]:
    """The strings of all modules and SQL files, read when the first test asks."""
    return [text for path in PYTHON for text in python_texts(path)] + [
        text for path in SQL for text in sql_texts(path)
    ]


#: How the names of sessions in pg_stat_activity begin, which are no commands.
SESSIONS = (["copy", "task"], ["copy", "index"], ["copy", "load"], ["copy", "keys"])


def options(command: click.Command) -> set[str]:
    return {
        option
        for parameter in command.params
        for option in [*parameter.opts, *parameter.secondary_opts]
    } | {"--help"}


def all_options(command: click.Command) -> set[str]:
    """The options of a command and of those below it."""
    found = options(command)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found |= all_options(below)
    return found


def called(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that words call, and the words behind it; LookupError when there is none."""
    command: click.Command = cli
    rest = list(words)
    while isinstance(command, click.Group):
        while rest and rest[0].startswith("-"):
            if rest.pop(0) in ("-c", "--config", "--node", "--set") and rest:
                rest.pop(0)
        if not rest or not re.fullmatch("[a-z][a-z-]*", rest[0]):
            break
        known = command.table if isinstance(command, LazyGroup) else command.commands
        if rest[0] not in known:
            raise LookupError(rest[0])
        found = command.get_command(click.Context(command), rest.pop(0))
        assert found is not None
        command = found
    return command, rest


def defined_functions() -> set[str]:
    return {
        name
        for path in SQL
        for name in re.findall(
            r"(?i)create or replace function ([a-z_]+[.]\w+)", path.read_text(encoding="utf-8")
        )
    }


def test_every_command_that_a_message_names_exists_with_its_options() -> None:
    wrong = []
    for text in texts():
        for found in re.finditer(r"\blondiste ((?:-{0,2}[A-Za-z][\w-]*[ ]?)+)", text):
            words = found[1].split()
            if words[0] in PROSE or (words[0] in SHELL and "/shell/" in text.where):
                continue
            if words[:2] in SESSIONS:
                continue
            try:
                command, rest = called(words)
            except LookupError as error:
                wrong.append(f"{text.where}: no command {error} in: {found[0]}")
                continue
            for word in rest:
                if word.startswith("--") and word not in options(command):
                    wrong.append(f"{text.where}: no option {word} in: {found[0]}")
    assert not wrong, "\n".join(wrong)


#: What names another place, after a command.
PLACE = re.compile(
    r"\bwith (?:the|its) settings\b|\bin the databases? of\b|\bthere$|\b(?:on|at) "
    r"(?:the |that |each |every )?(?:root|nodes?|leaf|branch|provider|subscribers?)\b"
)
#: And before it, in words that ``completed`` does not know: a name alone.
#: Sentences of a page, with commands as examples.
_CATALOGS = ("londiste/monitor/catalog.py", "londiste/monitor/table_findings.py")
NAME = re.compile(r"(?:\b(?:on|at|or of) X\b|with its settings)[^;:]*:? londiste$")


def test_a_command_for_another_place_is_preceded_by_the_place() -> None:
    """Otherwise it is completed with the settings file of the call, which is another node's."""
    call = hints_of_calls.given(["-c", "CALL", "x"])
    wrong = []
    for text in texts():
        if text.where.startswith(_CATALOGS):
            continue
        told = hints_of_calls.completed(text, call, lambda words: _lookup(cli, words))
        before, *rest = told.split(" -c CALL ")
        for after in rest:
            clause = re.split(r"[;\n(]|, then |, or |, and |\blondiste ", after)[0]
            if PLACE.search(clause.strip()) or NAME.search(before):
                wrong.append(f"{text.where}: {told}")
            before = after
    assert not wrong, "\n".join(wrong)


def test_every_sql_function_that_a_message_calls_is_defined() -> None:
    functions = defined_functions()
    assert "pgq.ticker" in functions
    wrong = [
        f"{text.where}: no function {name} in: {text}"
        for text in texts()
        for name in re.findall(
            r"\b((?:pgq|pgq_coop|pgq_ext|pgq_node|londiste)[.][a-z_]\w*)\(", text
        )
        if name not in functions
    ]
    assert not wrong, "\n".join(wrong)


def test_every_option_that_a_message_names_belongs_to_some_command() -> None:
    """Hints that name an option without its command, as --register."""
    known = all_options(cli)
    assert {"--register", "--set", "--provider"} <= known
    wrong = [
        f"{text.where}: no option {word} in: {text}"
        for path in PYTHON
        for text in hints(path)
        for word in re.findall(r"(?<![\w-])--[a-z][a-z-]+", re.sub("pip install .*", "", text))
        if word not in known
    ]
    assert not wrong, "\n".join(wrong)


def test_every_argument_of_a_handler_has_its_option_in_front() -> None:
    """Otherwise a shell gives the next word to the command, as one more table."""
    argument = r"--handler-arg ('[^']*'|[^\s';,]+)"
    assert sum(bool(re.search(argument, text)) for text in texts()) > 10
    wrong = [
        f"{text.where}: {found[0]} in: {text}"
        for text in texts()
        for found in re.finditer(argument + r" (use --|[a-z_]+=)\S*", text)
    ]
    assert not wrong, "\n".join(wrong)
