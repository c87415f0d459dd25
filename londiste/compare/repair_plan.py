"""Repair plan: a reviewable SQL file with one statement per row.

Every statement is on one line.  The line above it contains the row of both sides as JSON; with
that ``londiste repair --apply`` checks the row again before it writes.  Statements name the
row as it was compared, so that one that has changed is not found.  Whatever names and values are,
a line begins with ``--`` or is one statement: line breaks are escaped in both.
"""

# ruff: noqa: S608 - every name passes through quote(), every value through literal(), every type comes
# from format_type(), conditions are those of the user or made in pieces.py.

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from londiste.compare.column_pairing import Pairing, whole
from londiste.compare.diff import DIFFERS, EXTRA, MISSING, Row, RowDifference
from londiste.db.ddl import line_name, literal, typed
from londiste.db.names import argument
from londiste.db.sessions.settings import TEXT_SETTINGS
from londiste.errors import BadOption

VERSION = "-- londiste repair plan 1"
_ROW = "-- row "
_END = "commit;"
#: Deletes come first: they free unique values for inserts.
_ORDER = {"delete": 0, "update": 1, "insert": 2}


@dataclass(frozen=True)
class Rules:
    """Rules of the target table for statements.

    unique -- columns of other unique indexes, and identities that are always generated: a row in
        which one of them differs is deleted and inserted.
    """

    unique: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RepairChange:
    """One statement of a plan, and the difference that it is for.

    line -- number of its line in the file that it was read from; 0: it was read from none.
    """

    table: str
    difference: RowDifference
    statement: str
    line: int = field(default=0, compare=False)

    @property
    def verb(self) -> str:
        """delete, update or insert."""
        return self.statement.split(" ", 1)[0]


def changes(
    table: Pairing, differences: Iterable[RowDifference], rules: Rules
) -> list[RepairChange]:
    """The statements that make the node's rows equal to the root's, in the order to run them."""
    found = [
        RepairChange(table.name, difference, statement)
        for difference in differences
        for statement in _statements(table, difference, rules)
    ]
    return in_order(found)


def verify(table: Pairing, plan: Sequence[RepairChange], rules: Rules, where: str) -> None:
    """Checks that the statements of a file match its rows, and that none is missing.

    plan -- the changes of this table; where -- the file.

    Raises BadOption, which names the line.  What a row is on both sides is not looked at here:
    a row that is not what its note says is left alone later.
    """
    hint = (
        "do not edit values: remove the row with every statement of the same -- row line, or"
        f" create the plan again: londiste repair {argument(table.name)} --plan FILE"
    )
    given = Counter((change.difference, change.statement) for change in plan)
    for change in plan:
        try:
            wanted = list(_statements(table, change.difference, rules))
        except (IndexError, ValueError):
            # As many values as the table has columns now, or it is another row.
            wanted = []
        if change.statement not in wanted:
            raise BadOption(
                f"{where}, line {change.line}: the statement does not match its row",
                detail="the line was edited, or the table was changed; nothing was written."
                + (f" Expected: {' '.join(wanted)[:300]}" if wanted else ""),
                hint=hint,
            )
        # A row that is deleted and inserted has two: one of them alone would be another change.
        if len({given[change.difference, statement] for statement in wanted}) > 1:
            raise BadOption(
                f"{where}, line {change.line}: the row has {len(wanted)} statements, and some are"
                " missing in the file",
                detail="the row is deleted and inserted again; nothing was written",
                hint=hint,
            )


def in_order(found: Sequence[RepairChange]) -> list[RepairChange]:
    """Deletes, then updates, then inserts."""
    return sorted(found, key=lambda change: _ORDER.get(change.verb, 1))


def _statements(table: Pairing, difference: RowDifference, rules: Rules) -> Iterator[str]:
    there, here = difference.there, difference.here
    if difference.kind == DIFFERS and there is not None and here is not None:
        names = [table.columns[n] for n in difference.changed()]
        whole = rules.unique & set(names) and not table.only_here
        if whole:
            yield _delete(table, here)
            yield _insert(table, there)
        else:
            sets = ", ".join(
                f"{line_name(name)} = {_new_value(table, table.columns.index(name), there)}"
                for name in names
            )
            yield f"update {_place(table)} set {sets} where {_one(table, here)};"
    elif here is not None:
        yield _delete(table, here)
    elif there is not None:
        yield _insert(table, there)


def _place(table: Pairing) -> str:
    name = f"{line_name(table.pair.dest.schema)}.{line_name(table.pair.dest.name)}"
    return name if table.node_children else f"only {name}"


def _delete(table: Pairing, row: Row) -> str:
    return f"delete from {_place(table)} where {_one(table, row)};"


def _insert(table: Pairing, row: Row) -> str:
    columns = ", ".join(map(line_name, table.columns))
    values = ", ".join(_new_value(table, n, row) for n in range(len(row)))
    name = _place(table).removeprefix("only ")
    return f"insert into {name} ({columns}) overriding system value values ({values});"


def _one(table: Pairing, row: Row) -> str:
    """A condition that finds the row if it is as it was compared, and one of several like it."""
    image = ", ".join(map(line_name, table.columns))
    values = ", ".join(_value(table, n, row) for n in range(len(row)))
    parts = [
        f"{equals} {typed(value, whole(table.type_of(name)))}"
        for name, equals in zip(table.key, table.node_equals, strict=True)
        if (value := row[table.columns.index(name)]) is not None
    ]
    same = " and ".join([*parts, f"row({image})::text = row({values})::text"])
    if table.unique_here:
        return same
    if table.node_children:
        one = f"select tableoid, ctid from {_place(table)} where {same} limit 1"
        return f"(tableoid, ctid) in ({one})"
    return f"ctid = (select ctid from {_place(table)} where {same} limit 1)"


def _value(table: Pairing, number: int, row: Row) -> str:
    """A value that the node has."""
    return typed(row[number], table.types[number])


def _new_value(table: Pairing, number: int, row: Row) -> str:
    """A value of the root: one that is too long for the column is an error, and is not cut."""
    plain = table.read_as[number]
    kind = whole(plain)
    return typed(row[number], table.types[number] if kind == plain else kind)


def too_long(table: Pairing, change: RepairChange) -> list[str]:
    """Columns, with their types, that have not enough room for the values of the root's row.

    Those of which that is not known are named too, if no other one is found.
    """
    row = change.difference.there or ()
    found, doubtful = [], []
    for name, kind, value in zip(table.columns, table.read_as, row, strict=False):
        if value is None or whole(kind) == kind:
            continue
        text = f"{name} ({kind})"
        if kind.endswith("[]"):
            doubtful.append(text)
            continue
        room = int(kind.rpartition("(")[2].rstrip(")"))
        if len(value.rstrip(" ")) > room or (kind.startswith("bit(") and len(value) != room):
            found.append(text)
    return found or doubtful


@dataclass(frozen=True)
class RepairPlan:
    """A plan that was read from a file.

    where -- SQL condition of the comparison that it is from; '' if it had none.
    """

    queue: str
    changes: tuple[RepairChange, ...]
    where: str = ""


def text(
    found: Sequence[RepairChange],
    *,
    queue: str,
    node: str,
    tick: int,
    made: str,
    command: str,
    condition: str = "",
) -> str:
    """The file.

    condition -- SQL condition of the comparison that the plan is from.
    command -- applies it.
    """
    facts = {"queue": queue, "node": node, "tick": tick, "made": made}
    if condition:
        facts["where"] = condition
    lines = [
        VERSION,
        f"-- plan {json.dumps(facts)}",
        "--",
        "-- Makes the rows below equal to those of the root. Review it, remove rows to keep as",
        "-- they are (the line that begins with -- row, and the statement below it; a row that is",
        "-- deleted and inserted has two of each), and apply it. An edited statement is refused:",
        f"--     {command}",
        "-- That checks every row again at a common tick, skips those that have changed on",
        "-- either side since, and does the rest in one transaction. psql would do it too, but",
        "-- checks this side only.",
        "",
        *_begin(),
        "",
    ]
    for change in found:
        lines += [f"{_ROW}{json.dumps(_note(change))}", change.statement, ""]
    return "\n".join([*lines, _END, ""])


def _begin() -> list[str]:
    return [
        "begin;",
        *(f"set local {name} = {literal(value)};" for name, value in sorted(_settings().items())),
        "set local session_replication_role = replica;",
        "set constraints all deferred;",
    ]


def _settings() -> dict[str, str]:
    kept = {k: v for k, v in TEXT_SETTINGS.items() if k not in {"client_encoding", "row_security"}}
    return {**kept, "search_path": "pg_catalog"}


def _note(change: RepairChange) -> dict[str, Any]:
    difference = change.difference
    return {
        "table": change.table,
        "kind": difference.kind,
        "key": difference.key,
        "root": difference.there,
        "here": difference.here,
    }


def parse(content: str, where: str) -> RepairPlan:
    """The plan in a file.  Raises BadOption, which names the line, for what is no plan."""

    def wrong(number: int, what: str) -> BadOption:
        return BadOption(
            f"{where}, line {number}: {what}",
            hint="remove whole rows only, or create the plan again: londiste repair TABLE --plan",
        )

    lines = content.split("\n")
    if lines[0] != VERSION:
        raise wrong(1, "not a repair plan of this version")
    queue, condition, note, found = "", "", None, []
    frame = {"", *_begin(), _END}
    ended = False
    for number, line in enumerate(lines[1:], 2):
        try:
            if line.startswith("-- plan "):
                facts = json.loads(line.removeprefix("-- plan "))
                queue, condition = str(facts["queue"]), str(facts.get("where", ""))
            elif line.startswith(_ROW):
                if note is not None:
                    raise wrong(number, "a row without a statement before it")
                note = json.loads(line.removeprefix(_ROW))
            elif line and not line.startswith("--") and note is not None:
                found.append(_change(note, line, number))
                note = None
            elif line not in frame and not line.startswith("--"):
                raise wrong(number, "a statement without a -- row line")
            ended = ended or line == _END
        except (ValueError, KeyError, TypeError) as error:
            raise wrong(number, f"invalid format: {error}") from None
    if note is not None or not queue or not ended:
        raise wrong(len(lines), "the end of the file is missing")
    return RepairPlan(queue, tuple(found), condition)


def _change(note: Any, line: str, number: int) -> RepairChange:
    kind = str(note["kind"])
    if kind not in {MISSING, EXTRA, DIFFERS}:
        raise ValueError(f"kind {kind}")
    there, here = (None if note[s] is None else tuple(note[s]) for s in ("root", "here"))
    return RepairChange(
        str(note["table"]), RowDifference(kind, tuple(note["key"]), there, here), line, number
    )
