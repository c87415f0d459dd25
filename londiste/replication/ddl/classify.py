"""When a statement of a script runs on a node: in the batch's transaction, before it, or behind it.

Most statements run in the transaction of the batch, between the rows that came before the script
and those that came after it.  Some cannot:

    first   ALTER TYPE … ADD VALUE   what it adds may be used only after its commit, and rows of
                                     the same batch may use it: committed before the batch
    after   CREATE INDEX CONCURRENTLY, DROP INDEX CONCURRENTLY, REINDEX … CONCURRENTLY, VACUUM
                                     refuse to run in a transaction: behind the batch's commit, and
                                     before the next script

So a script is cut into *parts*: each is sent, run and recorded by itself, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from londiste.db.names import TableName
from londiste.errors import BadOption
from londiste.replication.ddl.split import Statement, Word, split


class StatementTiming(StrEnum):
    """How a part runs on a node."""

    BATCH = "batch"
    FIRST = "first"
    AFTER = "after"


@dataclass(frozen=True)
class ScriptPart:
    """What is sent as one event: statements that run in one way.

    name -- of the file, with ``/1``, ``/2`` … when it has several parts.
    text -- the script of the part.
    """

    name: str
    text: str
    way: StatementTiming
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class IndexBuild:
    """What ``create index concurrently`` and its like leave behind when they are killed.

    index -- the name of the index, with its schema if the statement names one.
    table -- the table that is named.
    """

    kind: str
    index: tuple[str, ...] = ()
    table: tuple[str, ...] = ()


_TRANSACTION = (
    ("begin",),
    ("start", "transaction"),
    ("commit",),
    ("end",),
    ("rollback",),
    ("abort",),
    ("savepoint",),
    ("release",),
    ("prepare", "transaction"),
    ("set", "transaction"),
    ("set", "session", "characteristics"),
)
_WHOLE_SERVER = (
    ("alter", "system"),
    ("create", "database"),
    ("drop", "database"),
    ("create", "tablespace"),
    ("drop", "tablespace"),
    ("create", "subscription"),
    ("alter", "subscription"),
    ("drop", "subscription"),
    ("reindex", "database"),
    ("reindex", "system"),
    ("alter", "database", "set", "tablespace"),
)
#: What ends with the session or the transaction, or waits for somebody.
_SESSION = (("listen",), ("unlisten",), ("discard",), ("fetch",), ("declare",), ("move",))


def parts(name: str, script: str, sent: str | None = None) -> list[ScriptPart]:
    """The parts of a script, in their order.  Raises BadOption for what cannot be carried.

    sent -- the same script with its placeholders, from which the texts of the parts are taken.
    """
    sent = script if sent is None else sent
    statements = split(script)
    if not statements:
        raise BadOption(f"{name}: there is no statement in it", hint="nothing was done")
    ways = [(way_of(statement), statement) for statement in statements]
    groups: list[tuple[StatementTiming, list[Statement]]] = []
    for way, found in groupby(ways, key=lambda pair: pair[0]):
        mine = [statement for _, statement in found]
        if way is StatementTiming.AFTER:
            groups += [(way, [one]) for one in mine]
        else:
            groups.append((way, mine))
    if len(groups) == 1:
        return [ScriptPart(name, sent, groups[0][0], tuple(statements))]
    made = []
    for number, (way, mine) in enumerate(groups, 1):
        start, end = mine[0].words[0].start, mine[-1].words[-1].end
        text = sent[start:end]
        made.append(ScriptPart(f"{name}/{number}", text, way, tuple(mine)))
    return made


def way_of(statement: Statement) -> StatementTiming:
    """How a statement has to be run.  Raises BadOption when it must not be."""
    _refuse(statement)
    words = statement.words
    if statement.begins("alter", "type") and _follows(words, "add", "value"):
        return StatementTiming.FIRST
    if statement.begins("vacuum"):
        return StatementTiming.AFTER
    if statement.begins("reindex"):
        whole = any(w.is_("schema") for w in words[1:3]) or _follows(words[:6], ")", "schema")
        if whole or any(w.is_("concurrently") for w in words[1:8]):
            index_build(statement)
            return StatementTiming.AFTER
        return StatementTiming.BATCH
    index = statement.begins("create", "index") or statement.begins("create", "unique", "index")
    if (index or statement.begins("drop", "index")) and any(
        w.is_("concurrently") for w in words[2:4]
    ):
        index_build(statement)
        return StatementTiming.AFTER
    return StatementTiming.BATCH


def index_build(statement: Statement) -> IndexBuild | None:
    """What a statement that runs by itself leaves behind when it is killed; None: nothing.

    Raises BadOption for an index without a name, which nobody could find again.
    """
    words = list(statement.words)
    if statement.begins("vacuum"):
        return None
    if statement.begins("reindex"):
        rest = _behind(words, "concurrently")
        kind = next((w.text for w in words[1:] if w.is_("index", "table", "schema")), "table")
        name, _ = _name(rest)
        if kind == "index":
            return IndexBuild("reindex", index=name)
        return IndexBuild("reindex", table=name if kind == "table" else ())
    rest = _behind(words, "concurrently")
    if statement.begins("drop"):
        if rest[:2] and rest[0].is_("if"):
            rest = rest[2:]
        name, left = _name(rest)
        if left and left[0].text == ",":
            raise BadOption(
                f"line {statement.line}: only one index can be dropped concurrently",
                hint="write a statement for each index",
            )
        return IndexBuild("drop", index=name)
    if rest and rest[0].is_("if"):
        rest = rest[3:]
    if not rest or rest[0].is_("on"):
        raise BadOption(
            f"line {statement.line}: an index that is built concurrently needs a name",
            detail="without one nobody finds what a build that was interrupted leaves behind",
            hint="write: create index concurrently NAME on …",
        )
    name, rest = _name(rest)
    if rest and rest[0].is_("on"):
        rest = rest[1:]
    if rest and rest[0].is_("only"):
        rest = rest[1:]
    table, _ = _name(rest)
    return IndexBuild("create", index=name, table=table)


def named(words: Sequence[Word]) -> frozenset[str]:
    """Everything in some words that may be the name of something."""
    return frozenset(word.text for word in words if word.names)


def mentions(statements: Sequence[Statement], table: TableName) -> bool:
    """Whether the statements name a table, as far as that can be seen from their words."""
    return any(table.name in named(statement.words) for statement in statements)


def _name(words: Sequence[Word]) -> tuple[tuple[str, ...], Sequence[Word]]:
    """The name at the beginning, in its parts, and what is behind it."""
    found: list[str] = []
    position = 0
    while position < len(words) and words[position].names:
        found.append(words[position].text)
        position += 1
        if position < len(words) and words[position].text == ".":
            position += 1
        else:
            break
    return tuple(found), words[position:]


def _behind(words: Sequence[Word], keyword: str) -> Sequence[Word]:
    for position, word in enumerate(words):
        if word.is_(keyword):
            return words[position + 1 :]
    return ()


def _follows(words: Sequence[Word], *wanted: str) -> bool:
    size = len(wanted)
    return any(
        all(w.kind != "name" and w.text == x for w, x in zip(words[i:], wanted, strict=False))
        for i in range(len(words) - size + 1)
    )


def _refuse(statement: Statement) -> None:
    where = f"line {statement.line}"
    if any(statement.begins(*words) for words in _TRANSACTION):
        raise BadOption(
            f"{where}: {statement.shown}: a script has no transactions of its own",
            detail="it runs in one transaction of londiste, on every node",
            hint="leave the statement out",
        )
    if any(statement.begins(*words) for words in _WHOLE_SERVER):
        raise BadOption(
            f"{where}: {statement.shown}: it changes the whole server, or other databases",
            detail="nodes may share a server, and an interrupted script could not be repeated",
            hint="run it by hand on the servers that need it",
        )
    if any(statement.begins(*words) for words in _SESSION):
        raise BadOption(
            f"{where}: {statement.shown}: it concerns the session only",
            hint="leave the statement out",
        )
    if any(w.is_("session_replication_role") for w in statement.words[:3]):
        raise BadOption(
            f"{where}: the script changes session_replication_role, which the worker needs",
            hint="leave the statement out: triggers that capture changes are silent in scripts",
        )
    if (
        statement.begins("alter", "table")
        and _follows(statement.words, "detach", "partition")
        and any(w.is_("concurrently", "finalize") for w in statement.words)
    ):
        raise BadOption(
            f"{where}: {statement.shown}: it cannot be repeated when it was interrupted",
            hint="leave CONCURRENTLY out, or detach the partition by hand on each node",
        )
    if statement.begins("cluster") and len(statement.words) == 1:
        raise BadOption(
            f"{where}: CLUSTER without a table runs in no transaction",
            hint="name the table: cluster TABLE using INDEX",
        )
