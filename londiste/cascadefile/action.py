"""Actions of a plan in words: what each does, locks, copies and loses; pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

from londiste.db.names import TableName
from londiste.handlers import table_rules
from londiste.wording import shortened

#: Assumed speed of a copy with its indexes, in bytes per second.
COPY_RATE = 50_000_000
_SHOWN = 6


class Kind(StrEnum):
    """What an action does."""

    INSTALL = "install"
    CREATE = "create-node"
    SET_QUEUE = "set-queue"
    ADD = "add-table"
    ADD_SEQ = "add-seq"
    RULE = "change-handler"
    POLICY = "change-policy"
    WAIT = "wait-sync"
    SWITCHOVER = "switchover"
    MOVE = "change-provider"
    REMOVE = "remove-table"
    REMOVE_SEQ = "remove-seq"
    DROP = "drop-node"


#: Actions that need a ticker and the workers of the nodes.
NEED_DAEMONS = frozenset({Kind.WAIT, Kind.SWITCHOVER, Kind.MOVE})
#: Actions that end the replication of something: they need --allow-remove.
REMOVALS = frozenset({Kind.REMOVE, Kind.REMOVE_SEQ, Kind.DROP})


@dataclass(frozen=True)
class Action:
    """One action on one node.

    role -- of a new node, or ``root`` where the action is about the root itself.
    other -- the provider, or the old root.
    attrs, policy -- the rule of the tables.
    values -- parameters of the queue.
    copied, deleted -- bytes that are copied, and bytes of rows that the copy deletes first.
    code -- of the root, that created tables would run; the file does not accept it.
    resumed -- an interrupted command has begun it.
    exposes -- the rule may give the node rows, columns or values that it did not get before.
    sequences -- that are added or removed; with removed tables, those that stay.
    """

    kind: Kind
    node: str
    role: str = ""
    other: str = ""
    tables: tuple[TableName, ...] = ()
    attrs: tuple[tuple[str, str], ...] = ()
    policy: str = "halt"
    values: tuple[tuple[str, str], ...] = ()
    copied: int = 0
    deleted: int = 0
    code: tuple[str, ...] = ()
    resumed: bool = False
    exposes: bool = False
    sequences: tuple[TableName, ...] = ()

    def describe(self) -> str:
        """One line: node, and what is done."""
        text = f"{self.node}: {self._what()}"
        return f"{text} (continues an interrupted command)" if self.resumed else text

    def _what(self) -> str:
        match self.kind:
            case Kind.INSTALL:
                return "install or upgrade the SQL"
            case Kind.CREATE:
                below = f", provider {self.other}" if self.other else ""
                return f"create node, role {self.role}{below}"
            case Kind.SET_QUEUE:
                return f"set queue parameters {_pairs(self.values)}"
            case Kind.ADD:
                rule = _rule(self.attrs, self.policy)
                return f"add {_names(self.tables)}" + (f" with {rule}" if rule else "")
            case Kind.ADD_SEQ:
                return f"add {_names(self.sequences, 'sequence')}"
            case Kind.RULE:
                rule = _rule(self.attrs, "halt") or "no handler and no filter"
                return f"change {_names(self.tables)} to {rule}"
            case Kind.POLICY:
                word = table_rules.resolution(self.policy)
                return f"set conflict resolution of {_names(self.tables)} to {word}"
            case Kind.WAIT:
                return "wait until its tables are in sync"
            case Kind.SWITCHOVER:
                return f"make it the root, {self.other} becomes a branch below it"
            case Kind.MOVE:
                return f"switch to provider {self.other}"
            case Kind.REMOVE | Kind.REMOVE_SEQ:
                where = " on all nodes" if self.role == "root" else ""
                names = _names(self.sequences, "sequence") if self.sequences else ""
                if self.kind is Kind.REMOVE_SEQ:
                    return f"remove {names}{where}"
                return f"remove {_names(self.tables)}{where}" + (names and f", keep {names}")
            case Kind.DROP:
                return "remove the node from the cascade"

    def locks(self) -> str:
        """The locks that users of the databases notice."""
        root = self.role == "root"
        match self.kind:
            case Kind.INSTALL:
                return "tables of the schemas pgq, pgq_node and londiste"
            case Kind.ADD if root:
                return "each table SHARE ROW EXCLUSIVE for milliseconds"
            case Kind.ADD:
                return "each table ACCESS EXCLUSIVE on this node, at the start and end of its copy"
            case Kind.RULE if self.copied:
                return "each table ACCESS EXCLUSIVE on this node, at the start and end of its copy"
            case Kind.RULE | Kind.REMOVE:
                return "each table ACCESS EXCLUSIVE for milliseconds"
            case Kind.SWITCHOVER:
                return "writes wait until the new root has the last tick, at most 10 s"
            case Kind.DROP:
                return "each table of the node ACCESS EXCLUSIVE for milliseconds"
            case _:
                return "none"

    def copies(self, rate: int = COPY_RATE) -> str:
        """Bytes and estimated time; '' if nothing is copied."""
        if not self.copied:
            return ""
        return f"{_bytes(self.copied)}, about {_time(self.seconds(rate))}"

    def seconds(self, rate: int = COPY_RATE) -> float:
        """Estimated duration of the copies."""
        return self.copied / rate

    def loses(self) -> str:
        """What cannot be restored by the reverse change; '' if nothing."""
        match self.kind:
            case Kind.RULE if self.exposes:
                return "a filter or handler: the node may get more rows, columns or values"
            case Kind.ADD | Kind.RULE if self.deleted:
                return f"existing rows on this node, {_bytes(self.deleted)}"
            case Kind.REMOVE:
                return "the position of each table; rows stay"
            case Kind.REMOVE_SEQ:
                return "the values that the root publishes; the sequence stays"
            case Kind.DROP:
                return "its queue and the positions of its consumers; rows stay"
            case _:
                return ""

    def as_json(self, rate: int = COPY_RATE) -> PlannedAction:
        """The action for ``--json``."""
        return {
            "action": self.kind.value,
            "node": self.node,
            "what": self.describe(),
            "tables": [str(name) for name in self.tables],
            "sequences": [str(name) for name in self.sequences],
            "locks": self.locks(),
            "copy_bytes": self.copied,
            "copy_seconds": round(self.seconds(rate), 1),
            "loses": self.loses() or None,
            "needs_daemons": self.kind in NEED_DAEMONS,
            "needs_allow_remove": self.kind in REMOVALS,
            "needs_allow_unfiltered": self.exposes,
            "needs_allow_code": list(self.code),
        }


class PlannedAction(TypedDict):
    """An action of a plan.

    action -- its kind.
    tables, sequences -- of the action.
    copy_bytes, copy_seconds -- of the copies that follow.
    loses -- what cannot be restored.
    needs_daemons -- ticker and workers must run.
    needs_allow_code -- code that created tables would run without consent.
    """

    action: str
    node: str
    what: str
    tables: list[str]
    sequences: list[str]
    locks: str
    copy_bytes: int
    copy_seconds: float
    loses: str | None
    needs_daemons: bool
    needs_allow_remove: bool
    needs_allow_unfiltered: bool
    needs_allow_code: list[str]


def _names(tables: tuple[TableName, ...], word: str = "table") -> str:
    word = word if len(tables) == 1 else f"{len(tables)} {word}s:"
    return f"{word} {shortened(tables, _SHOWN)}"


def _rule(attrs: tuple[tuple[str, str], ...], policy: str) -> str:
    # Options of a handler may be long, and may contain keys.
    words = [
        f"{key} {value.partition('(')[0] if key == table_rules.HANDLER else value}"
        for key, value in attrs
    ]
    if policy != "halt":
        words.append(f"conflict resolution {table_rules.resolution(policy)}")
    return ", ".join(words)


def _pairs(values: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values)


def _bytes(number: int) -> str:
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{seconds / 3600:.1f} h"
