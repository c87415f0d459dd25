r"""Arguments of commands: names that begin with ``-`` are written as ``\-name``, as hints do.

``londiste.db.names.word`` writes them.
"""

from __future__ import annotations

import re
from typing import Any

import click


def name_in_word(text: str) -> str:
    """Pure: the name that a word stands for: without the backslash before ``-``."""
    return text[1:] if re.match(r"\\+-", text) else text


class _Word(click.types.StringParamType):
    """A text, or a name behind a backslash."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return name_in_word(super().convert(value, param, ctx))


def with_words(command: click.Command) -> click.Command:
    """Lets the arguments of a command be such words; returns the command."""
    for parameter in command.params:
        if isinstance(parameter, click.Argument) and parameter.type is click.STRING:
            parameter.type = _Word()
    return command
