"""What ``londiste replicate`` was asked for, and the commands that it prints."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from londiste.cli import output
from londiste.dsn import masked, secrets_of, without_secrets
from londiste.replicate.setup import Selection


@dataclass(frozen=True)
class Asked:
    """The databases and tables as they were given, for commands that are printed."""

    source: str
    targets: tuple[str, ...]
    queue: str | None
    selection: Selection = field(default_factory=Selection)
    queues: int = 1
    saved: bool = False

    def command(self, *more: str) -> str:
        """The command with other options, for the same databases; without passwords."""
        return self._command([], more)

    def repeated(self, *more: str) -> str:
        """The same, also for the same tables and rows: it sets up no others.

        Even where the tables do not matter: what is printed next sets up no others either.
        """
        chosen, words = self.selection, list(self.selection.patterns)
        for option, values in (("--exclude", chosen.exclude), ("--schema", chosen.schemas)):
            for value in values:
                words += [option, value]
        words += ["--where", chosen.where] if chosen.where else []
        words += ["--allow-code"] if chosen.allow_code else []
        words += ["--queues", str(self.queues)] if self.queues > 1 else []
        return self._command(words, more)

    def of_queue(self, queue: str, *more: str) -> str:
        """The command for another queue of the same databases."""
        return replace(self, queue=queue)._command([], more)

    @property
    def has_passwords(self) -> bool:
        """Whether the printed commands lack passwords that were given."""
        return any(map(secrets_of, (self.source, *self.targets)))

    def say_how_to_continue(self, stop: str) -> None:
        """Prints what became of the replication, and the commands that continue or remove it.

        stop -- why it has stopped.
        """
        output.message(f"{stop}; changes are not replicated until the command runs again")
        output.message("the source keeps the events until then, which takes disk space")
        output.message(f"continue:                   {self.repeated()}")
        output.message(f"continue in the background: {self.repeated('--detach')}")
        output.message(f"remove everything:          {self.command('--remove')}")
        self.name_the_file()
        if self.has_passwords:
            output.message("passwords are not printed: give them again, or store them in ~/.pgpass")
        output.message("tables stay; --remove --drop-tables also drops those that were created")

    def name_the_file(self) -> None:
        """Prints what single commands need: they have no settings yet."""
        if not self.saved:
            save_them = self.repeated("--save", "FILE")
            output.message(f"settings of other commands: {save_them}, then -c FILE --node NAME")

    def _command(self, chosen: Sequence[str], more: Sequence[str]) -> str:
        words = [_printed(self.source), _printed(self.targets[0]), *chosen]
        for dsn in self.targets[1:]:
            words += ["--also", _printed(dsn)]
        words += ["--queue", self.queue] if self.queue else []
        return "londiste replicate " + " ".join(shlex.quote(word) for word in (*words, *more))


def _printed(dsn: str) -> str:
    """A connection string that can be pasted, where ~/.pgpass has its password."""
    return without_secrets(dsn) if secrets_of(dsn) else masked(dsn)
