"""Old commands of a pair and the present commands that do their work."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

import click

from londiste import configfile
from londiste.cli import options, output
from londiste.db.names import word
from londiste.errors import BadOption, InstallError, UsageError
from londiste.settings import pair

#: Old command -> words of the present one; its own words follow.
_SAME = {
    "remove": "remove-table",
    "tables": "tables",
    "seqs": "seqs",
    "add-seq": "add-seq",
    "remove-seq": "remove-seq",
    "missing": "missing",
    "check": "check",
    "fkeys": "fkeys",
    "triggers": "triggers",
}
OLD: dict[str, dict[str, str]] = {
    pair.PROVIDER: {
        "install": "install; create-root",
        "add": "add-table",
        **_SAME,
        "refresh-trigger": "triggers --restore",
    },
    pair.SUBSCRIBER: {
        "install": "install; create-leaf",
        "add": "add-table",
        **_SAME,
        "resync": "resync",
        "restore-triggers": "triggers --restore",
        "restore-fkeys": "fkeys --restore",
        "register": "create-leaf",
        "unregister": "drop-node",
    },
}


@dataclass(frozen=True)
class Call:
    """A present command: the side that it works on, and its words."""

    side: str
    words: tuple[str, ...]

    @property
    def options(self) -> tuple[str, ...]:
        """The options in front of it that choose the side."""
        return ("--set", f"{pair.SIDE}={self.side}") if self.side == pair.PROVIDER else ()

    def text(self, config: object) -> str:
        """The command as it is typed."""
        return shlex.join(["londiste", "-c", str(config), *self.options, *self.words])


def translate(side: str, words: Sequence[str], *, job: str) -> list[Call]:
    """The present commands for ``provider WORDS`` or ``subscriber WORDS``.

    Raises UsageError for a command that the side did not have.
    """
    known = OLD[side]
    if not words or words[0] not in known:
        named = f"unknown command {side} {words[0]}" if words else f"{side}: no command given"
        raise UsageError(named, hint=f"commands of {side}: {', '.join(known)}")
    old, rest = words[0], list(words[1:])
    if old in ("fkeys", "triggers"):
        # The lists show all of them, with their states.
        rest = [word for word in rest if word not in ("pending", "active")]
    if old == "unregister":
        rest = [job]
    return [Call(side, (*now.split(), *rest)) for now in known[old].split("; ")]


def run(context: options.Context, side: str, words: Sequence[str]) -> int:
    """Runs an old command, or prints the present ones with ``--dry-run``; the exit code."""
    if words[:1] and words[0] in ("-h", "--help"):
        click.echo(f"usage: londiste FILE.ini {side} COMMAND [--dry-run]")
        click.echo(f"commands: {', '.join(OLD[side])}")
        return 0
    job = require_pair(context)
    dry = [word for word in words if word in ("--dry-run", "--explain")]
    calls = translate(side, [word for word in words if word not in dry], job=job)
    if dry:
        for call in calls:
            click.echo(call.text(context.config))
        return 0
    code = 0
    for call in calls:
        output.message(f"{side} {words[0]} is now: {call.text(context.config)}")
        try:
            code = code or invoke(context, call)
        except InstallError as error:
            if call.words == ("create-leaf",):
                # It is the provider that lacks it.
                error.hint = f"londiste {word(str(context.config))} provider install"
            raise
    return code


def require_pair(context: options.Context) -> str:
    """The name of the job.  Raises BadOption if the file describes no pair, or no queue."""
    if context.config is None:
        raise BadOption("no settings file given", hint="londiste FILE.ini provider install")
    section = configfile.read(context.config)[1].get("londiste", {})
    if not pair.is_pair(section):
        raise BadOption(
            f"{context.config}: no pair: provider_db and subscriber_db are needed in [londiste]",
            hint="for other nodes use the present commands: londiste --help",
        )
    if not (section.get("pgq_queue_name") or section.get("queue_name")):
        raise BadOption(
            f"{context.config}: setting pgq_queue_name is missing in section [londiste]",
            hint="add a line to the section: pgq_queue_name = londiste.replic",
        )
    return str(section.get("job_name") or context.config.stem)


def of_side(context: options.Context, side: str) -> options.Context:
    """The context of a command for one side."""
    if side == pair.SUBSCRIBER:
        return context
    return replace(context, overrides={**context.overrides, pair.SIDE: side})


def invoke(context: options.Context, call: Call) -> int:
    """Runs a present command in this process; its exit code."""
    from londiste.cli import cli
    from londiste.cli.errors import repeat_in_hints

    if call.options:
        repeat_in_hints(*call.options)
    group = click.get_current_context().find_root()
    with click.Context(cli, info_name=group.info_name) as parent:
        parent.obj = of_side(context, call.side)
        command = cli.get_command(parent, call.words[0])
        assert command is not None
        with command.make_context(call.words[0], list(call.words[1:]), parent=parent) as ctx:
            result = command.invoke(ctx)
    return result if isinstance(result, int) else 0


#: Words and options go to the present command as they are.
RAW = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}
