"""Command groups from a table, whose modules are imported when they are called.

``--help`` is printed from the table, so it loads neither Spark nor a database driver.
"""

from __future__ import annotations

import gc
import importlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """One command: where its code is, and its line in the help list.

    module -- below the package of the group; the command there has its own name, with ``_``
        for ``-``, and a ``_`` behind it where Python has the name already (``list_``).
    heading -- under which it is listed; headings come in the order of the table.
    aliases -- other names of the command, which the help list does not show.
    hidden -- the help list does not show the command.
    """

    module: str
    help: str
    heading: str
    aliases: tuple[str, ...] = ()
    hidden: bool = False


class LazyGroup(click.Group):
    """Finds a command in its table and imports the command's module when it is called.

    package -- where the modules of the table are.
    table -- command names and their entries.
    first -- heading of commands that the help lists before the options.
    """

    def __init__(
        self,
        *args: Any,
        package: str,
        table: Mapping[str, Entry],
        first: str = "",
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.package = package
        self.table = table
        self.first = first

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, entry in self.table.items() if not entry.hidden]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = self.name_of(cmd_name)
        return None if name is None else self.load(name, self.table[name])

    def name_of(self, word: str) -> str | None:
        """The name of the command that a word calls by its name or an alias."""
        if word in self.table:
            return word
        return next((name for name, entry in self.table.items() if word in entry.aliases), None)

    def load(self, name: str, entry: Entry) -> click.Command:
        """The command of an entry, imported."""
        module = importlib.import_module(f"{self.package}.{entry.module}")
        attribute = name.replace("-", "_")
        command = getattr(module, f"{attribute}_", None) or getattr(module, attribute)
        assert isinstance(command, click.Command)
        if isinstance(command, click.Group):
            return command
        if not gc.isenabled():
            # The program is loaded; what it is made of stays to its end.
            gc.freeze()
            gc.enable()
        from londiste.cli.options import with_node

        return with_words(with_node(command))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.name_of(args[0]) is None and not args[0].startswith("-"):
            from londiste.cli.errors import unknown_command

            raise unknown_command(args, self.table, ctx.command_path)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        commands = [
            CompletionItem(name, help=entry.help)
            for name, entry in self.table.items()
            if not entry.hidden and name.startswith(incomplete)
        ]
        # Not the one of click.Group, which imports the commands.
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.first:
            self._write_commands(self.first, formatter)
        super().format_options(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading in dict.fromkeys(entry.heading for entry in self.table.values()):
            if heading != self.first:
                self._write_commands(heading, formatter)

    def _write_commands(self, heading: str, formatter: click.HelpFormatter) -> None:
        lines = [
            (name, e.help)
            for name, e in self.table.items()
            if e.heading == heading and not e.hidden
        ]
        if lines:
            with formatter.section(heading):
                formatter.write_dl(lines)


class RunByDefault(LazyGroup):
    """Passes words that are no command to ``run``: its options and arguments.

    alone -- also a call without any words.
    """

    def __init__(self, *args: Any, alone: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        self.alone = alone

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args:
            default = args[0] not in self.table and args[0] not in ctx.help_option_names
        else:
            # A shell that completes the word behind the group asks without words.
            default = self.alone and not ctx.resilient_parsing
        return super().parse_args(ctx, ["run", *args] if default else args)


def name_in_word(text: str) -> str:
    """Pure: the name that a word stands for: without the backslash before ``-``."""
    return text[1:] if re.match(r"\\+-", text) else text


class Word(click.types.StringParamType):
    """A text, or a name behind a backslash."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return name_in_word(super().convert(value, param, ctx))


def with_words(command: click.Command) -> click.Command:
    """Lets arguments of a command, and options with a name, be such words; returns the command."""
    for parameter in command.params:
        named = isinstance(parameter, click.Argument) or parameter.metavar in ("NAME", "NODE")
        if named and parameter.type is click.STRING:
            parameter.type = Word()
    return command
