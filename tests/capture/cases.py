"""One random case of the capture property, as data: tables, statements, batch limits.

Everything is text made beforehand, so a case can be printed, run again, and made smaller by
leaving parts out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

#: Schema of everything a case makes; dropped before the next one.
SCHEMA = "app"
#: The table that most statements are about.
MAIN = "app.t"


@dataclass(frozen=True)
class Copy:
    """COPY … FROM STDIN with its data."""

    text: str
    data: str

    def __str__(self) -> str:
        return f"{self.text} <<< {self.data!r}"


@dataclass(frozen=True)
class Undone:
    """Statements inside a savepoint that is rolled back."""

    statements: tuple[Statement, ...]

    def __str__(self) -> str:
        inner = "; ".join(map(str, self.statements))
        return f"savepoint undone; {inner}; rollback to undone"


Statement = str | Copy | Undone


@dataclass(frozen=True)
class Write:
    """One transaction of the application.

    guarded -- each statement in a savepoint, so that one that fails takes nothing else with it.
    """

    statements: tuple[Statement, ...]
    level: str = "read committed"
    guarded: bool = False
    commit: bool = True

    def __str__(self) -> str:
        lines = [f"begin isolation level {self.level};"]
        lines += [f"    {statement};" for statement in self.statements]
        lines.append("commit;" if self.commit else "rollback;")
        return "\n".join(lines) + ("  -- guarded" if self.guarded else "")


@dataclass(frozen=True)
class Alter:
    """DDL on the source, with a refresh of the capture or without.

    before -- on the target at once; after -- when all is replayed.
    settled -- everything before it is replayed first.
    """

    source: str
    before: str = ""
    after: str = ""
    settled: bool = False
    refreshed: bool = False

    def __str__(self) -> str:
        return f"{self.source};  -- on the target: {self.before or self.after or 'nothing'}"


@dataclass(frozen=True)
class Mark:
    """Something about the queue: ``tick``, ``replay``, ``replay joined``, ``rotate``."""

    what: str

    def __str__(self) -> str:
        return f"-- {self.what}"


Step = Write | Alter | Mark


@dataclass(frozen=True)
class Case:
    """A case.

    tables -- the tables that are compared and captured, with the options of their captures.
    made -- DDL for both sides that the rest needs.
    extras -- DDL for both sides (constraints, triggers) that can be left out.
    target -- DDL for the target alone, likewise.
    settings -- of the session that writes.
    packed -- the queue's ``packed_events``.
    flush_bytes -- of the reader: into what parts a batch is cut.
    damage -- statements for the target alone, behind all others.
    """

    seed: int
    tables: dict[str, tuple[str, ...]]
    made: tuple[str, ...]
    extras: tuple[str, ...]
    steps: tuple[Step, ...]
    settings: dict[str, str] = field(default_factory=dict)
    packed: bool = True
    flush_bytes: int = 64 << 20
    target: tuple[str, ...] = ()
    damage: tuple[Statement, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"-- seed {self.seed}, packed_events {self.packed}, flush_bytes {self.flush_bytes}",
            *(f"set {name} = '{value}';" for name, value in self.settings.items()),
            *(f"{ddl};" for ddl in self.made),
            *(f"{ddl};" for ddl in self.extras),
            *(f"{ddl};  -- on the target" for ddl in self.target),
            *(
                f"select londiste.create_capture('q', '{table}', '{{{', '.join(options)}}}');"
                for table, options in self.tables.items()
            ),
            *map(str, self.steps),
            *(f"{statement};  -- on the target, as damage" for statement in self.damage),
        ]
        return "\n".join(lines)

    def smaller(self) -> Iterator[Case]:
        """This case with one part left out, in every way: the large parts first."""
        for number, step in enumerate(self.steps):
            if not (isinstance(step, Mark) and number == len(self.steps) - 1):
                yield replace(self, steps=self.steps[:number] + self.steps[number + 1 :])
        for number in range(len(self.extras)):
            yield replace(self, extras=self.extras[:number] + self.extras[number + 1 :])
        for number in range(len(self.target)):
            yield replace(self, target=self.target[:number] + self.target[number + 1 :])
        if self.settings:
            yield replace(self, settings={})
        for number, step in enumerate(self.steps):
            for less in _less(step):
                yield replace(self, steps=(*self.steps[:number], less, *self.steps[number + 1 :]))
        for table, options in self.tables.items():
            for number in range(len(options)):
                fewer = options[:number] + options[number + 1 :]
                yield replace(self, tables={**self.tables, table: fewer})


def _less(step: Step) -> Iterator[Step]:
    if not isinstance(step, Write):
        return
    if len(step.statements) > 1:
        for number in range(len(step.statements)):
            fewer = step.statements[:number] + step.statements[number + 1 :]
            yield replace(step, statements=fewer)
    if step.guarded:
        yield replace(step, guarded=False)
    if step.level != "read committed":
        yield replace(step, level="read committed")
