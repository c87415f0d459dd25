"""Timing of a script's statements: in the batch's transaction, before it, or after it.

Most statements run in the transaction of the batch, between the rows that came before the script
and those that came after it.  Some cannot:

    first   ALTER TYPE … ADD VALUE   the new value can be used only after the commit, and rows of
                                     the same batch may use it: committed before the batch
    after   CREATE INDEX CONCURRENTLY, DROP INDEX CONCURRENTLY, REINDEX … CONCURRENTLY, VACUUM
                                     refuse to run in a transaction: after the batch's commit,
                                     and before the next script

So a script is cut into *parts*, which are sent, run and recorded separately, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from londiste.errors import BadOption
from londiste.replication.ddl.split import Statement, Word, split, words_after


class StatementTiming(StrEnum):
    """How a part runs on a node."""

    BATCH = "batch"
    FIRST = "first"
    AFTER = "after"


@dataclass(frozen=True)
class ScriptPart:
    """A part of a script: statements with one timing, sent as one event.

    name -- of the file, with ``/1``, ``/2`` … when it has several parts.
    text -- the script of the part.
    """

    name: str
    text: str
    way: StatementTiming
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class IndexBuild:
    """The object that an interrupted ``create index concurrently`` or the like may leave.

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
    """The parts of a script, in order.  Raises BadOption for forbidden statements.

    sent -- the same script with its placeholders, from which the texts of the parts are taken.
    """
    sent = script if sent is None else sent
    statements = split(script)
    if not statements:
        raise BadOption(f"script {name} contains no statement", hint="nothing was executed")
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
    """The timing of a statement.  Raises BadOption when it is forbidden."""
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
    """The object that a non-transactional statement leaves when interrupted; None: nothing.

    Raises BadOption for an index without a name, which could not be found again.
    """
    words = list(statement.words)
    if statement.begins("vacuum"):
        return None
    if statement.begins("reindex"):
        rest = words_after(words, "concurrently")
        kind = next((w.text for w in words[1:] if w.is_("index", "table", "schema")), "table")
        name, _ = _name(rest)
        if kind == "index":
            return IndexBuild("reindex", index=name)
        return IndexBuild("reindex", table=name if kind == "table" else ())
    rest = words_after(words, "concurrently")
    if statement.begins("drop"):
        if rest[:2] and rest[0].is_("if"):
            rest = rest[2:]
        name, left = _name(rest)
        if left and left[0].text == ",":
            raise BadOption(
                f"line {statement.line}: only one index can be dropped concurrently",
                hint="write one statement for each index",
            )
        return IndexBuild("drop", index=name)
    if rest and rest[0].is_("if"):
        rest = rest[3:]
    if not rest or rest[0].is_("on"):
        raise BadOption(
            f"line {statement.line}: CREATE INDEX CONCURRENTLY needs a name",
            detail="without one the remains of an interrupted build cannot be found",
            hint="name the index: create index concurrently NAME on …",
        )
    name, rest = _name(rest)
    if rest and rest[0].is_("on"):
        rest = rest[1:]
    if rest and rest[0].is_("only"):
        rest = rest[1:]
    table, _ = _name(rest)
    return IndexBuild("create", index=name, table=table)


def _name(words: Sequence[Word]) -> tuple[tuple[str, ...], Sequence[Word]]:
    """The name at the beginning, in its parts, and the rest."""
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
            f"{where}: {statement.shown}: transaction commands are not allowed in a script",
            detail="each node runs it in one transaction",
            hint="remove the statement",
        )
    if any(statement.begins(*words) for words in _WHOLE_SERVER):
        raise BadOption(
            f"{where}: {statement.shown}: a script cannot change the server or other databases",
            detail="nodes may share a server, and an interrupted script could not be repeated",
            hint="run it with psql on the servers that need it",
        )
    if any(statement.begins(*words) for words in _SESSION):
        raise BadOption(
            f"{where}: {statement.shown}: session commands are not allowed in a script",
            hint="remove the statement",
        )
    if any(w.is_("session_replication_role") for w in statement.words[:3]):
        raise BadOption(
            f"{where}: a script cannot change session_replication_role",
            hint="remove the statement: capture triggers do not fire in scripts",
        )
    if (
        statement.begins("alter", "table")
        and _follows(statement.words, "detach", "partition")
        and any(w.is_("concurrently", "finalize") for w in statement.words)
    ):
        raise BadOption(
            f"{where}: {statement.shown}: cannot be repeated after an interruption",
            hint="remove CONCURRENTLY, or detach the partition with psql on each node",
        )
    if statement.begins("cluster") and len(statement.words) == 1:
        raise BadOption(
            f"{where}: CLUSTER without a table runs in no transaction",
            hint="name the table: cluster TABLE using INDEX",
        )
