"""Row diff: the rows that differ between two sides; pure.

Rows are texts.  Those of one key are held against each other as a multiset, so a table without a
key, or a key that is there twice on one side, is no special case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Row = tuple[str | None, ...]

MISSING, EXTRA, DIFFERS = "missing", "extra", "differs"


@dataclass(frozen=True)
class RowDifference:
    """A row that differs between the sides.

    kind -- missing: the root has it and this node has not; extra: the other way round; differs:
        both have a row of this key.
    there, here -- the row on the root and on this node, None where there is none.
    """

    kind: str
    key: Row
    there: Row | None
    here: Row | None

    def changed(self) -> list[int]:
        """Numbers of the columns that differ, for a row that both sides have."""
        if self.there is None or self.here is None:
            return []
        pairs = zip(self.there, self.here, strict=True)
        return [number for number, (one, other) in enumerate(pairs) if one != other]


def differences(
    root: Iterable[Row], node: Iterable[Row], key: Sequence[int]
) -> list[RowDifference]:
    """The changes that turn ``node`` into ``root``, ordered by key.

    key -- numbers of the columns in the key; a row that is one too many on each side with the same
        key is a pair that differs.  None: only whole rows can be missing or extra.
    """
    there, here = Counter(root), Counter(node)
    more, less = there - here, here - there
    missing, extra = _by_key(more, key), _by_key(less, key)
    found: list[RowDifference] = []
    for one in sorted(missing.keys() | extra.keys(), key=_order):
        left, right = missing.get(one, []), extra.get(one, [])
        if key and len(left) == len(right) == 1:
            found.append(RowDifference(DIFFERS, one, left[0], right[0]))
            continue
        found += [RowDifference(EXTRA, one, None, row) for row in right]
        found += [RowDifference(MISSING, one, row, None) for row in left]
    return found


def suspects(
    root: Mapping[bytes, Sequence[bytes]],
    node: Mapping[bytes, Sequence[bytes]],
    *,
    extra: bool = True,
) -> list[bytes]:
    """Keys whose rows differ; the values are lists of digests by key.

    extra -- also those that the node alone has.
    """
    keys = [key for key, rows in root.items() if sorted(rows) != sorted(node.get(key, ()))]
    return keys + [key for key in node if key not in root] if extra else keys


def _by_key(rows: Counter[Row], key: Sequence[int]) -> dict[Row, list[Row]]:
    found: dict[Row, list[Row]] = {}
    for row, count in rows.items():
        which = tuple(row[n] for n in key) if key else row
        found.setdefault(which, []).extend([row] * count)
    for some in found.values():
        some.sort(key=_order)
    return found


def _order(row: Row) -> tuple[tuple[bool, str], ...]:
    return tuple((value is None, value or "") for value in row)
