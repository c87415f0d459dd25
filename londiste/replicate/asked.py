"""What ``londiste replicate`` was asked for, and the commands for the same databases."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from londiste.cascade.progress import POSITION_LOST_HINT
from londiste.db.names import argument
from londiste.dsn import masked, secrets_of, without_secrets
from londiste.replicate.setup import Selection
from londiste.wording import at_node


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

    def placed(self, hint: str, node: str) -> str:
        """The hint of an error of a node, for somebody who has these commands only.

        For a lost position the workers must stop, which other commands do for workers with files.
        """
        if POSITION_LOST_HINT not in hint:
            return at_node(hint, node)
        first = [f"if it runs in the background: {self.repeated('--stop')}"]
        if not self.saved:
            first.append(f"{self.repeated('--save', 'FILE')}, then Ctrl-C")
        rewind = f"londiste -c FILE --node {argument(node)} worker --rewind"
        return "; ".join((*first, rewind))

    @property
    def has_passwords(self) -> bool:
        """Whether the printed commands lack passwords that were given."""
        return any(map(secrets_of, (self.source, *self.targets)))

    def _command(self, chosen: Sequence[str], more: Sequence[str]) -> str:
        words = [_printed(self.source), _printed(self.targets[0]), *chosen]
        for dsn in self.targets[1:]:
            words += ["--also", _printed(dsn)]
        words += ["--queue", self.queue] if self.queue else []
        return "londiste replicate " + " ".join(shlex.quote(word) for word in (*words, *more))


def _printed(dsn: str) -> str:
    """A connection string that can be pasted, where ~/.pgpass has its password."""
    return without_secrets(dsn) if secrets_of(dsn) else masked(dsn)
