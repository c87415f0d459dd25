"""Results of a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from londiste.changes.row_values import stored_error
from londiste.compare.column_pairing import Pairing
from londiste.compare.diff import DIFFERS, EXTRA, MISSING, RowDifference
from londiste.errors import LondisteError

#: Characters of a value that are shown.
_SHOWN = 200


@dataclass(frozen=True)
class TableResult:
    """What is known of one table.

    rows_root, rows_node -- at the tick of the comparison; of the ranges that were looked at now.
    equal -- every row is the same, or was when suspects were looked at again, and this node stores
        all columns that replication carries.
    differences -- the rows that are not, at the tick of the second look.
    more -- there are more of them than was asked for.
    healed -- suspects that were the same at the second look.
    ranges, ranges_known -- pieces of the table, and those that were found equal before.
    """

    pairing: Pairing
    rows_root: int
    rows_node: int
    equal: bool
    differences: tuple[RowDifference, ...] = ()
    more: bool = False
    healed: int = 0
    ranges: int = 1
    ranges_known: int = 0

    @property
    def table(self) -> str:
        """Its name in the queue."""
        return self.pairing.name

    @property
    def skipped_columns(self) -> tuple[str, ...]:
        """Columns that were not compared."""
        return self.pairing.skipped

    def counts(self) -> dict[str, int]:
        """Rows that are missing, extra and that differ."""
        found = Counter(difference.kind for difference in self.differences)
        return {kind: found[kind] for kind in (MISSING, EXTRA, DIFFERS)}


@dataclass(frozen=True)
class Comparison:
    """What came out: a tick both sides were at, and the tables in the order of the node.

    tick_id -- of what was read last.
    failed -- why further tables could not be compared, by their names.
    """

    tick_id: int
    tables: tuple[TableResult, ...]
    failed: Mapping[str, LondisteError] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """Every table is, and was compared."""
        return not self.failed and all(result.equal for result in self.tables)


def as_json(table: Pairing, difference: RowDifference) -> dict[str, Any]:
    """A difference for ``--json``: values are texts, as PostgreSQL writes them."""
    result: dict[str, Any] = {
        "kind": difference.kind,
        "key": dict(zip(table.found_by, difference.key, strict=True)) if table.key else None,
    }
    if difference.kind == DIFFERS:
        assert difference.there is not None and difference.here is not None
        result["columns"] = {
            table.columns[n]: {"root": difference.there[n], "here": difference.here[n]}
            for n in difference.changed()
        }
    else:
        row = difference.there or difference.here or ()
        result["row"] = dict(zip(table.columns, row, strict=True))
    return result


def as_text(table: Pairing, difference: RowDifference) -> str:
    """A difference in one line; long values are cut."""
    row = difference.there or difference.here or ()
    names = table.found_by
    values = difference.key if table.key else row
    which = ", ".join(f"{n}={_shown(v)}" for n, v in zip(names, values, strict=True))
    where = {MISSING: "missing here", EXTRA: "only here", DIFFERS: "differs"}[difference.kind]
    text = f"{table.name} {where}: {which}"
    if difference.kind == DIFFERS:
        assert difference.there is not None and difference.here is not None
        pairs = [
            f"{table.columns[n]} {_shown(difference.there[n])} here {_shown(difference.here[n])}"
            for n in difference.changed()
        ]
        text += f": {'; '.join(pairs)}"
    return text


def _shown(value: str | None) -> str:
    if value is None:
        return "NULL"
    return repr(value) if len(value) <= _SHOWN else repr(value[:_SHOWN]) + "…"


def first_of(failed: Mapping[str, LondisteError], say: Callable[[str], None]) -> LondisteError:
    """The error that ends the comparison; those of further tables are printed."""
    (name, first), *others = failed.items()
    for other, error in others:
        say(f"table {other} could not be compared: {stored_error(error)}")
    first.say_more(f"table {name}; the other tables were compared")
    return first
