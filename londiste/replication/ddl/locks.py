"""Forecast of a statement's lock, and whether it rewrites or reads the table.

For ``--dry-run``, which runs nothing.  A test verifies the tables below against ``pg_locks`` of
PostgreSQL.  Other statements are reported as unknown: nothing here decides what is done.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from londiste.replication.ddl.split import Statement, Word, words_after

ACCESS_SHARE = "ACCESS SHARE"
ROW_EXCLUSIVE = "ROW EXCLUSIVE"
SHARE_UPDATE = "SHARE UPDATE EXCLUSIVE"
SHARE = "SHARE"
SHARE_ROW = "SHARE ROW EXCLUSIVE"
EXCLUSIVE = "EXCLUSIVE"
ACCESS_EXCLUSIVE = "ACCESS EXCLUSIVE"
NONE = "none"
UNKNOWN = "not known"

#: Weakest first.
STRENGTH = (
    NONE,
    ACCESS_SHARE,
    "ROW SHARE",
    ROW_EXCLUSIVE,
    SHARE_UPDATE,
    SHARE,
    SHARE_ROW,
    EXCLUSIVE,
    ACCESS_EXCLUSIVE,
    UNKNOWN,
)

#: What a lock keeps out.
KEEPS_OUT = {
    SHARE_UPDATE: "other changes of structure",
    SHARE: "writers",
    SHARE_ROW: "writers",
    EXCLUSIVE: "writers",
    ACCESS_EXCLUSIVE: "readers and writers",
}


@dataclass(frozen=True)
class Effect:
    """The lock forecast of a statement.

    table -- as the statement names it; '' when there is none.
    lock -- the strongest on that table.
    rewrites -- yes, no, or when it does.
    reads -- the whole table is read while the lock is held: yes, no.
    """

    table: str
    lock: str
    rewrites: str = "no"
    reads: str = "no"


def foresee(statement: Statement) -> Effect:
    """The forecast for a statement, as far as its words show."""
    words = statement.words
    first = words[0].text if words[0].kind == "word" else ""
    match first:
        case "alter":
            return _alter(statement)
        case "create":
            return _create(statement)
        case "drop":
            return _drop(statement)
        case "truncate":
            return Effect(_table(words, 1, "table", "only"), ACCESS_EXCLUSIVE, "yes")
        case "insert":
            return Effect(_table(words, 1, "into"), ROW_EXCLUSIVE)
        case "merge":
            return Effect(_table(words, 1, "into", "only"), ROW_EXCLUSIVE)
        case "update":
            return Effect(_table(words, 1, "only"), ROW_EXCLUSIVE)
        case "delete":
            return Effect(_table(words, 1, "from", "only"), ROW_EXCLUSIVE)
        case "comment":
            return Effect(_table(words, 3) if _has(words, "table") else "", SHARE_UPDATE)
        case "grant" | "revoke" | "set" | "reset" | "security":
            return Effect("", NONE)
        case "lock":
            return _lock(words)
        case "select" | "values" | "table":
            return Effect("", ACCESS_SHARE)
        case "analyze":
            return Effect(_table(words, 1, "verbose"), SHARE_UPDATE)
        case "vacuum":
            full = _has(words, "full")
            table = _table(words, 1, "full", "freeze", "verbose", "analyze")
            return Effect(table, ACCESS_EXCLUSIVE if full else SHARE_UPDATE, _yes(full), "yes")
        case "cluster":
            return Effect(_table(words, 1, "verbose"), ACCESS_EXCLUSIVE, "yes", "yes")
        case "reindex":
            quiet = _has(words[:8], "concurrently")
            table = _table(words, 1, "table", "concurrently") if _has(words[:3], "table") else ""
            return Effect(table, SHARE_UPDATE if quiet else SHARE, reads="yes")
        case "refresh":
            quiet = _has(words[:4], "concurrently")
            table = _table(words, 3, "concurrently")
            return Effect(table, EXCLUSIVE if quiet else ACCESS_EXCLUSIVE, _yes(not quiet), "yes")
    return Effect("", UNKNOWN, UNKNOWN, UNKNOWN)


def truncated(statement: Statement) -> tuple[list[str], bool]:
    """The tables that a TRUNCATE names, and whether it cascades; none for other statements."""
    words = statement.words
    if not words or not words[0].is_("truncate"):
        return [], False
    parts = _actions(words[1:])
    names = [_table(part, 0, "table", "only") for part in parts]
    return [name for name in names if name], bool(parts) and parts[-1][-1].is_("cascade")


def _create(statement: Statement) -> Effect:
    words = [w for w in statement.words if not w.is_("or", "replace", "unique", "constraint")]
    kind = words[1].text if len(words) > 1 else ""
    if kind == "index":
        quiet = _has(words[:4], "concurrently")
        table = _table(words_after(words, "on"), 0, "only")
        return Effect(table, SHARE_UPDATE if quiet else SHARE, reads="yes")
    if kind in {"trigger", "rule", "policy"}:
        lock = SHARE_ROW if kind == "trigger" else ACCESS_EXCLUSIVE
        rest = words_after(words, "on")
        if kind == "rule":
            rest = words_after(rest, "to")
        return Effect(_table(rest, 0), lock)
    if kind == "statistics":
        return Effect(_table(words_after(words, "from"), 0), SHARE_UPDATE)
    if kind == "table" and _has(words, "references"):
        return Effect(_table(words_after(words, "references"), 0), SHARE_ROW)
    if kind == "table" and _follows(words, "partition", "of"):
        return Effect(_table(words_after(words, "of"), 0), ACCESS_EXCLUSIVE)
    return Effect("", NONE)


def _drop(statement: Statement) -> Effect:
    words = statement.words
    kind = words[1].text if len(words) > 1 else ""
    if kind == "index":
        quiet = _has(words[:4], "concurrently")
        return Effect("", SHARE_UPDATE if quiet else ACCESS_EXCLUSIVE)
    if kind in {"table", "view", "sequence"}:
        return Effect(_table(words, 2, "if", "exists"), ACCESS_EXCLUSIVE)
    if kind == "materialized":
        return Effect(_table(words, 3, "if", "exists"), ACCESS_EXCLUSIVE)
    if kind in {"trigger", "rule", "policy"}:
        return Effect(_table(words_after(words, "on"), 0), ACCESS_EXCLUSIVE)
    return Effect("", NONE)


def _alter(statement: Statement) -> Effect:
    words = statement.words
    kind = words[1].text if len(words) > 1 else ""
    if kind == "sequence":
        return Effect(_table(words, 2, "if", "exists"), SHARE_ROW)
    if kind in {"view", "materialized"}:
        return Effect(_table(words, 2, "view", "if", "exists"), ACCESS_EXCLUSIVE)
    if kind == "index":
        return Effect(_table(words, 2, "if", "exists"), ACCESS_EXCLUSIVE)
    if kind in {"trigger", "policy", "rule"}:
        return Effect(_table(words_after(words, "on"), 0), ACCESS_EXCLUSIVE)
    if kind != "table":
        return Effect("", NONE)
    skipped = ("if", "exists", "only")
    table = _table(words, 2, *skipped)
    rest = _rest(words, 2, *skipped)
    effects = [_action(action, table) for action in _actions(rest)]
    if not effects:
        return Effect(table, UNKNOWN, UNKNOWN, UNKNOWN)
    return Effect(
        table,
        max((e.lock for e in effects), key=STRENGTH.index),
        _worst(e.rewrites for e in effects),
        _worst(e.reads for e in effects),
    )


def _action(words: Sequence[Word], table: str) -> Effect:
    """One action of ALTER TABLE."""
    texts = [word.text if word.kind == "word" else "" for word in words]
    head = texts[:2]
    match head:
        case ["add", "constraint"]:
            return _constraint(words[3:], table)
        case ["add", "check" | "foreign" | "unique" | "primary" | "exclude" | "not"]:
            return _constraint(words[1:], table)
        case ["add", _]:
            return _add_column(words, table)
        case ["validate", _]:
            return Effect(table, SHARE_UPDATE, reads="yes")
        case ["attach", _]:
            return Effect(table, SHARE_UPDATE, reads="yes")
        case ["enable" | "disable", *rest]:
            rows = rest[:1] == ["row"]
            rule = "rule" in texts
            return Effect(table, ACCESS_EXCLUSIVE if rows or rule else SHARE_ROW)
        case ["cluster", _]:
            return Effect(table, SHARE_UPDATE)
        case ["set", what]:
            if not what or words[1].text == "(" or what == "without":
                return Effect(table, SHARE_UPDATE)
            moved = what in {"tablespace", "logged", "unlogged", "access"}
            return Effect(table, ACCESS_EXCLUSIVE, _yes(moved), _yes(moved))
        case ["reset", _]:
            return Effect(table, SHARE_UPDATE)
        case ["force" | "no", "row"]:
            return Effect(table, ACCESS_EXCLUSIVE)
        case ["alter", _]:
            return _column(texts[2:] if texts[1] == "column" else texts[1:], table)
    return Effect(table, ACCESS_EXCLUSIVE)


def _constraint(words: Sequence[Word], table: str) -> Effect:
    texts = [word.text for word in words if word.kind == "word"]
    later = "valid" in texts and "not" in texts
    match texts[:1]:
        case ["foreign"]:
            return Effect(table, SHARE_ROW, reads=_yes(not later))
        case ["unique" | "primary"] if "using" in texts:
            return Effect(table, ACCESS_EXCLUSIVE)
    return Effect(table, ACCESS_EXCLUSIVE, reads=_yes(not later))


def _add_column(words: Sequence[Word], table: str) -> Effect:
    texts = [word.text for word in words if word.kind == "word"]
    signs = [word.text for word in words]
    serial = {"serial", "bigserial", "smallserial", "serial4", "serial8", "serial2"} & set(texts)
    if "stored" in texts or "identity" in texts or serial:
        return Effect(table, ACCESS_EXCLUSIVE, "yes", "yes")
    if "default" in texts:
        at = signs.index("default")
        if "(" in signs[at:] or any(t.startswith("current_") for t in texts):
            reads = "when the default is volatile"
            return Effect(table, ACCESS_EXCLUSIVE, reads, reads)
    indexed = {"unique", "primary", "check", "references"} & set(texts)
    return Effect(table, ACCESS_EXCLUSIVE, reads=_yes(bool(indexed)))


def _column(texts: Sequence[str], table: str) -> Effect:
    """ALTER COLUMN; ``texts`` begin with its name."""
    rest = list(texts[1:])
    match rest[:2]:
        case ["type", *_] | ["set", "data"]:
            why = "unless the new type is binary compatible"
            return Effect(table, ACCESS_EXCLUSIVE, f"yes, {why}", f"yes, {why}")
        case ["set", "not"]:
            return Effect(table, ACCESS_EXCLUSIVE, reads="yes")
        case ["set", "statistics"]:
            return Effect(table, SHARE_UPDATE)
        case ["set", "expression"]:
            return Effect(table, ACCESS_EXCLUSIVE, "yes", "yes")
        case ["set" | "reset", ""]:
            return Effect(table, SHARE_UPDATE)
    return Effect(table, ACCESS_EXCLUSIVE)


def _lock(words: Sequence[Word]) -> Effect:
    table = _table(words, 1, "table", "only")
    if not _has(words, "in"):
        return Effect(table, ACCESS_EXCLUSIVE)
    mode = []
    for word in words_after(words, "in"):
        if word.is_("mode"):
            break
        mode.append(word.text.upper())
    return Effect(table, " ".join(mode))


def _actions(words: Sequence[Word]) -> list[list[Word]]:
    found: list[list[Word]] = [[]]
    depth = 0
    for word in words:
        depth += word.text.count("(") - word.text.count(")") if word.kind == "sign" else 0
        if word.text == "," and not depth and word.kind == "sign":
            found.append([])
        else:
            found[-1].append(word)
    return [action for action in found if action]


def _rest(words: Sequence[Word], start: int, *skipped: str) -> Sequence[Word]:
    """What is behind the name that begins at ``start``, behind words that may be left out."""
    position = start
    while position < len(words) and words[position].is_(*skipped):
        position += 1
    while position < len(words) and words[position].names:
        position += 1
        if position < len(words) and words[position].text == ".":
            position += 1
        else:
            break
    if position < len(words) and words[position].text == "*":
        position += 1
    return words[position:]


def _table(words: Sequence[Word], start: int, *skipped: str) -> str:
    position = start
    while position < len(words) and (
        words[position].is_(*skipped) or _in_parentheses(words, start, position)
    ):
        position += 1
    found: list[str] = []
    while position < len(words) and words[position].names:
        found.append(words[position].text)
        if position + 1 < len(words) and words[position + 1].text == ".":
            position += 2
        else:
            break
    return ".".join(found)


def _in_parentheses(words: Sequence[Word], start: int, position: int) -> bool:
    """Options in front of a name, as in ``vacuum (full, analyze) t``."""
    if words[start].text != "(":
        return False
    depth = 0
    for index in range(start, position + 1):
        depth += words[index].text == "("
        if words[index].text == ")" and index < position:
            depth -= 1
    return depth > 0


def _has(words: Sequence[Word], *keywords: str) -> bool:
    return any(word.is_(*keywords) for word in words)


def _follows(words: Sequence[Word], first: str, second: str) -> bool:
    return any(a.is_(first) and b.is_(second) for a, b in itertools.pairwise(words))


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


def _worst(answers: Iterable[str]) -> str:
    found = list(answers)
    if "yes" in found:
        return "yes"
    return next((answer for answer in found if answer != "no"), "no")
