"""Folders of files by time: their names, periods and expiry.

A name is made of %(year)s, %(month)s, %(day)s, %(hour)s and letters; it must contain the words of
the period, so that each folder has one period that its name shows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime

from londiste.db.names import TableName, argument, quote
from londiste.errors import BadOption, EventError, LondisteError, StateError
from londiste.handlers.partitions import Period

_USUAL = {
    Period.YEAR: "year=%(year)s",
    Period.MONTH: "month=%(year)s-%(month)s",
    Period.DAY: "day=%(year)s-%(month)s-%(day)s",
    Period.HOUR: "hour=%(year)s-%(month)s-%(day)sT%(hour)s",
}
_NEEDED = {
    Period.YEAR: ("year",),
    Period.MONTH: ("year", "month"),
    Period.DAY: ("year", "month", "day"),
    Period.HOUR: ("year", "month", "day", "hour"),
}
#: As Spark formats a part of a time, and as it is found again.
_JAVA = {"year": "yyyy", "month": "MM", "day": "dd", "hour": "HH"}
_DIGITS = {"year": r"\d{4,}", "month": r"\d\d", "day": r"\d\d", "hour": r"\d\d"}
_WORD = re.compile(r"%\((\w+)\)s")
_LETTERS = re.compile(r"[A-Za-z0-9_.=/-]*")


@dataclass(frozen=True)
class Folders:
    """The folders of a table.

    template -- of their names; '' for the default: ``day=2026-01-31``.
    """

    period: Period
    template: str = ""

    def __post_init__(self) -> None:
        words = _WORD.findall(self.name)
        unknown = sorted(set(words) - set(_NEEDED[self.period]))
        missing = [word for word in _NEEDED[self.period] if words.count(word) != 1]
        if unknown or missing:
            raise BadOption(
                f"part_name={self.template}: a folder of one {self.period.value} needs each of"
                f" {', '.join(f'%({word})s' for word in _NEEDED[self.period])} once",
                detail=f"other words: {', '.join(unknown)}" if unknown else "",
                hint=f"part_name = {_USUAL[self.period]}",
            )
        for letters in _WORD.split(self.name)[::2]:
            if not _LETTERS.fullmatch(letters):
                raise BadOption(
                    f"part_name={self.template}: invalid characters {letters!r}",
                    hint="use letters, digits and _ . = / - only",
                )
        shown = _WORD.sub("0", self.name)
        # What begins with one of these is hidden from readers of files.
        if any(step[:1] in ("", ".", "_") for step in shown.split("/")):
            raise BadOption(
                f"part_name={self.template} is not a visible path below the table's directory",
                hint=f"part_name = {_USUAL[self.period]}",
            )

    @property
    def name(self) -> str:
        """The template."""
        return self.template or _USUAL[self.period]

    @property
    def depth(self) -> int:
        """Steps of the path."""
        return self.name.count("/") + 1

    @property
    def java(self) -> str:
        """The template for ``date_format`` of Spark."""
        found = []
        for number, text in enumerate(_WORD.split(self.name)):
            if number % 2:
                found.append(_JAVA[text])
            elif text:
                found.append(f"'{text}'")
        return "".join(found)

    def end(self, part: str) -> datetime | None:
        """The end of a folder's period; None for other folders, and behind year 9999."""
        pattern = ""
        for number, text in enumerate(_WORD.split(self.name)):
            pattern += f"(?P<{text}>{_DIGITS[text]})" if number % 2 else re.escape(text)
        found = re.fullmatch(pattern, part)
        if found is None:
            return None
        words = {word: int(text) for word, text in found.groupdict().items()}
        told = {"month": 1, "day": 1, "hour": 0, **words}
        if not MINYEAR <= told["year"] <= MAXYEAR:
            return None
        begin = datetime(told["year"], told["month"], told["day"], told["hour"], tzinfo=UTC)
        return self.period.next(begin)

    def is_old(self, part: str, since: datetime | None) -> bool:
        """Whether a folder ends before a time; None: nothing has expired."""
        end = self.end(part)
        return since is not None and end is not None and end <= since


def timeless(table: TableName, field: str, event: int) -> LondisteError:
    """The error of a row without the time that selects its folder.

    event -- of the row; 0: it is a row of a first copy.
    """
    if not event:
        return StateError(
            f"table {table}: a row of the copy has no time in column {field}",
            detail="its value is NULL; it selects the folder",
            hint=f"set a time in such rows (where {quote(field)} is null), or choose another column"
            " as part_field",
        )
    return EventError(
        f"event {event}: table {table}: no time in column {field}",
        detail="its value is NULL or missing; it selects the folder",
        hint="capture the table by row, so that DELETE events contain it: on the root londiste"
        f" change-form {argument(table)} row; or skip deletes: event_types=I,U",
        event_id=event,
    )
