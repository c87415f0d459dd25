"""Words and forms that no text for users has: helps, settings, errors, logs, module summaries."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click

import londiste
from londiste import errors, settings
from londiste.cli import cli
from londiste.cli.lazy import LazyGroup

PACKAGE = Path(londiste.__file__).parent

#: Everyday words, and the terms of the glossary instead.
WORDS = {
    r"nobody|somebody|anybody|whoever|everybody|people|persons?": "name the actor",
    r"(?:in|into|out of) step": "in sync",
    r"(?:hand|pass)(?:s|es|ed|ing)? on": "forward",
    r"tells?|told": "contains, reports, logs",
    r"anew": "again, re-create",
    r"mend(?:s|ed|ing)?": "repair, restore",
    r"lets?": "an imperative verb",
    r"(?:go|goes|going|went|gone) on": "continue, resume",
    r"in (?:the|its|their) place(?: of)?": "instead of, replaces",
    r"by (?:itself|themselves)": "automatically",
    r"meanwhile": "during …",
    r"in (?:the|its|their) way": "conflicts with, blocks",
    r"in the ordinary way": "serially",
    r"so (?:many|long|much)": "a number with its unit",
    r"the (?:original|family)(?:'s)?": "Londiste 3, PgQ",
    r"for ?ever": "indefinitely",
    r"shall": "must, should",
    r"(?:leave|leaves|leaving|left) (?:it |them )?(?:out|away)": "skip, exclude, omit",
    r"pass(?:es|ed|ing)? over": "ignore",
    r"(?:take|takes|taken|taking|put|puts) (?:it |them )?(?:off|back|away)": "drop, restore, undo",
    r"stands? (?:at|still|in|behind|there|where)": "is at tick, pauses",
    r"no (?:matter|harm)": "is supported, has no effect",
    r"milliards?": "billion",
    r"behind (?:this|that|these|the|it|its|them|which|tick)": "after",
    r"in front of": "before",
    r"again and again": "repeatedly",
    r"hold(?:s|ing)? (?:less|more|not all)": "filtered subset",
    r"ours|yours|us": "Londiste's, your",
    r"at home": "needs no …",
    r"less than nothing": "must not be negative",
    r"(?:has|have) heard|hears? of": "is notified",
    r"fall apart": "changes are not replicated",
    r"brought up to date|up to date, or": "upgrade",
    r"run the (?:same )?command again": "repeat the command, for which wording.repeated looks",
}
FORBIDDEN = re.compile("|".join(rf"(?:\b(?:{words})\b)" for words in WORDS), re.IGNORECASE)

#: How an option's help does not begin: a clause without its verb.
CLAUSE = re.compile(
    r"(?:Although|Without|Those|Of|Who|What|Where|How|Why|So|As|Most|Longest|Only|Not|Then|Also"
    r"|The same|Again|On all|All of|Their|Its)\b"
)

#: What a command's help does not act on.
NO_OBJECT = re.compile(r"\w+ (?:it|that|them)\b", re.IGNORECASE)

#: Words of a sentence of a help.
SENTENCE_WORDS = 25


class Text(NamedTuple):
    """A text that a user reads, and where it is written."""

    where: str
    text: str


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """A command and all below it, also those that the help list does not show."""
    yield name, command
    if isinstance(command, click.Group):
        table = command.table if isinstance(command, LazyGroup) else command.commands
        for word in table:
            below = command.get_command(click.Context(command), word)
            assert below is not None
            yield from commands(below, f"{name} {word}")


COMMANDS = dict(commands(cli, "londiste"))
OPTIONS = {
    f"{name} {parameter.opts[0]}": parameter
    for name, command in COMMANDS.items()
    for parameter in command.params
    if isinstance(parameter, click.Option) and not parameter.hidden
}


def helps() -> Iterator[Text]:
    for name, command in COMMANDS.items():
        yield Text(name, command.help or "")
        if isinstance(command, LazyGroup):
            for word, entry in command.table.items():
                yield Text(f"{name}: {word}", entry.help)
                yield Text(f"{name}: heading", entry.heading)
    for name, option in OPTIONS.items():
        yield Text(name, option.help or "")


def descriptions() -> Iterator[Text]:
    for kind in (
        settings.WorkerSettings,
        settings.TickerSettings,
        settings.ConsumerSettings,
    ):
        for key, field in kind.model_fields.items():
            yield Text(f"{kind.__name__}.{key}", field.description or "")


#: Functions that print their first argument.
PRINTS = {"message", "warning", "echo"}
LOGS = {"debug", "info", "warning", "error", "exception", "critical"}
ERRORS = {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.LondisteError)
} | {"say_more"}


def written(node: ast.AST) -> str:
    """The text of a literal, of one with values or of literals that are put together."""
    return " ".join(
        " ".join(
            part.value
            for part in ast.walk(node)
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        ).split()
    )


class Module(NamedTuple):
    """What a module says: its first line, and the errors, log lines and lines that it prints."""

    where: str
    summary: str
    literals: list[Text]
    #: The first words of its errors.
    errors: list[Text]


@cache
def modules() -> list[Module]:
    return [module(path) for path in sorted(PACKAGE.rglob("*.py"))]


def module(path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    where = str(path.relative_to(PACKAGE.parent))
    summary = (ast.get_docstring(tree) or "").partition("\n")[0]
    found = Module(where, summary, [Text(f"{where}:1", summary)], [])
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        owner = getattr(getattr(node.func, "value", None), "id", "")
        given: list[ast.expr] = []
        if name in ERRORS:
            given = [*node.args, *(k.value for k in node.keywords if k.arg in ("detail", "hint"))]
        elif (owner == "log" and name in LOGS) or (owner in ("output", "click") and name in PRINTS):
            given = node.args[:1]
        texts = [Text(f"{where}:{argument.lineno}", written(argument)) for argument in given]
        found.literals.extend(texts)
        if getattr(node.func, "id", "") in ERRORS:
            found.errors.extend(texts[: len(node.args)][:1])
    return found


def wrong(texts: Iterator[Text]) -> list[str]:
    return [
        f"{where}: {found[0]!r} in: {text}"
        for where, text in texts
        if (found := FORBIDDEN.search(re.sub(r"``?[^`]*``?|--[\w-]+|'[^']*'", "", text)))
    ]


def test_helps_of_commands_and_options_have_the_terms_of_the_glossary() -> None:
    assert not wrong(helps())


def test_descriptions_of_settings_have_the_terms_of_the_glossary() -> None:
    assert not wrong(descriptions())


def test_texts_of_modules_have_the_terms_of_the_glossary() -> None:
    assert not wrong(text for one in modules() for text in one.literals)


def test_a_module_has_a_summary_of_one_line() -> None:
    assert not [one.where for one in modules() if not one.summary.endswith((".", ":"))]


def test_help_of_a_command_names_its_object() -> None:
    first = [(n, (c.help or "").strip().partition("\n")[0]) for n, c in COMMANDS.items()]
    lines = [t for t in helps() if ":" in t.where and "heading" not in t.where]
    assert not [line for line in [*first, *lines] if NO_OBJECT.match(line[1])]


def test_help_of_an_option_says_what_the_option_does() -> None:
    assert not [
        (name, option.help)
        for name, option in OPTIONS.items()
        if not option.help or CLAUSE.match(option.help)
    ]


def test_an_option_with_a_number_names_its_unit() -> None:
    numbers = (click.INT, click.FLOAT)
    assert not [
        name
        for name, option in OPTIONS.items()
        if not option.is_flag
        and not option.count
        and option.metavar is None
        and (option.type in numbers or isinstance(option.type, click.IntRange | click.FloatRange))
    ]


def test_sentences_of_helps_are_short() -> None:
    long = [
        (len(sentence.split()), where, sentence)
        for where, text in helps()
        for paragraph in re.split(r"\n\s*\n", text)
        if "\b" not in paragraph
        for sentence in re.split(r"(?<=[.:;])\s+", paragraph)
        if len(sentence.split()) > SENTENCE_WORDS
    ]
    assert not long


def test_errors_begin_lower_case_and_end_without_a_full_stop() -> None:
    assert not [
        one
        for each in modules()
        for one in each.errors
        if one.text.endswith(".") or re.match(r"[A-Z][a-z]+ ", one.text)
    ]
