"""Command lines of earlier programs: a file, and options before or after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from londiste.cli.consumer_cli import Program
from londiste.compat.config import Config
from londiste.consumer import Consumer, ConsumerSettings
from londiste.errors import UsageError


@dataclass(frozen=True)
class Line:
    """A command line: its file, its options, and the other words."""

    file: str
    flags: tuple[str, ...]
    words: tuple[str, ...]


def parse(argv: Sequence[str], program: str, usage: str) -> Line:
    """Sorts the words of a command line.  Raises UsageError without a file."""
    flags = tuple(word for word in argv if word.startswith("-"))
    words = [word for word in argv if not word.startswith("-")]
    if not words:
        raise UsageError(f"{program}: no settings file given", hint=f"{program} {usage}")
    return Line(words[0], flags, tuple(words[1:]))


def present(config: Config, names: dict[str, str]) -> dict[str, str]:
    """The settings of a file that have a value, by their present names.

    names -- old name -> present name.
    """
    return {
        now: config.get(old)
        for old, now in names.items()
        if config.has_option(old) and config.get(old)
    }


class Registering(Program):
    """One call of a consumer's program, which registers the consumer at its start."""

    def act(self, consumer: Consumer, settings: ConsumerSettings) -> None:
        """What the options ask for."""
        asked = ("registering", "unregister", "pause", "resume", "rewind", "reset")
        if not any(self.given[name] for name in asked):
            consumer.register()
        super().act(consumer, settings)
