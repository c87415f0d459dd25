"""Command lines of earlier programs: a file, and options before or after it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click

from londiste.cli.consumer_cli import Program
from londiste.compat.config import Config
from londiste.consumer import Consumer, ConsumerSettings
from londiste.errors import BadOption, UsageError


@dataclass(frozen=True)
class Line:
    """A command line: its file, its options, and the other words."""

    file: str
    flags: tuple[str, ...]
    words: tuple[str, ...]


def parse(argv: Sequence[str], program: str, usage: str) -> Line | None:
    """Sorts the words of a command line; None: it prints the usage, as ``-h`` asks for.

    Raises UsageError without a file.
    """
    flags: list[str] = []
    words: list[str] = []
    left = iter(argv)
    for word in left:
        if word == "--":
            words += left
        elif word == "--set":
            flags += [word, *(value for value in [next(left, None)] if value is not None)]
        elif re.fullmatch(r"-[A-Za-z]{2,}", word):
            # -dv is -d -v.
            flags += [f"-{letter}" for letter in word[1:]]
        elif word.startswith("-") and word != "-":
            flags.append(word)
        else:
            words.append(word)
    if {"-h", "--help"}.intersection(flags):
        click.echo(f"usage: {program} {usage}")
        return None
    if not words:
        raise UsageError(f"{program}: no settings file given", hint=f"{program} {usage}")
    return Line(words[0], tuple(flags), tuple(words[1:]))


def refuse(words: Iterable[str], program: str, usage: str) -> None:
    """Raises UsageError for words that mean nothing here."""
    for word in words:
        kind = "no such option" if word.startswith("-") else "unexpected word"
        raise UsageError(f"{program}: {kind}: {word}", hint=f"{program} {usage}")


def present(config: Config, names: dict[str, str]) -> dict[str, str]:
    """The settings of a file that have a value, by their present names.

    names -- old name -> present name.
    """
    return {
        now: config.get(old)
        for old, now in names.items()
        if config.has_option(old) and config.get(old)
    }


def required(config: Config, *keys: str) -> None:
    """Raises BadOption for a setting that is missing or empty, by its old name."""
    for key in keys:
        if not config.get(key):
            raise BadOption(
                f"{config.filename}: setting {key} is empty in section [{config.main_section}]",
                hint=f"give it a value: {key} = …",
            )


class Registering(Program):
    """One call of a consumer's program, which registers the consumer at its start."""

    def act(self, consumer: Consumer, settings: ConsumerSettings) -> None:
        """What the options ask for."""
        asked = ("registering", "unregister", "pause", "resume", "rewind", "reset")
        if not any(self.given[name] for name in asked):
            consumer.register()
        super().act(consumer, settings)
