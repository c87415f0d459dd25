"""Folders by time: the name gives the period and its end."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from londiste.errors import BadOption
from londiste.handlers.partitions import Period
from londiste.tools.dispatch.folders import Folders


@pytest.mark.parametrize(
    ("period", "template", "part", "end"),
    [
        (Period.HOUR, "", "hour=2026-01-31T23", datetime(2026, 2, 1, tzinfo=UTC)),
        (Period.DAY, "", "day=2024-02-29", datetime(2024, 3, 1, tzinfo=UTC)),
        (Period.MONTH, "", "month=2025-12", datetime(2026, 1, 1, tzinfo=UTC)),
        (Period.YEAR, "", "year=2025", datetime(2026, 1, 1, tzinfo=UTC)),
        (Period.MONTH, "a.b/%(month)s_%(year)s", "a.b/11_2025", datetime(2025, 12, 1, tzinfo=UTC)),
    ],
)
def test_a_folder_is_old_when_its_last_moment_is(
    period: Period, template: str, part: str, end: datetime
) -> None:
    folders = Folders(period, template)
    assert folders.end(part) == end
    assert folders.is_old(part, end)
    assert not folders.is_old(part, end.replace(year=2000))
    assert not folders.is_old(part, None)
    assert not folders.is_old("axb/11_2025", end)


def test_spark_formats_the_words_and_leaves_the_letters() -> None:
    assert Folders(Period.DAY).java == "'day='yyyy'-'MM'-'dd"
    assert Folders(Period.MONTH, "%(year)s/m%(month)s").java == "yyyy'/m'MM"


@pytest.mark.parametrize(
    "template",
    [
        "day=%(day)s",
        "%(year)s%(month)s%(day)s%(hour)s",
        "%(year)s'%(month)s%(day)s",
        "%(year)s",
        "%(year)s/%(month)s/../%(day)s",
        "/%(year)s%(month)s%(day)s",
        "%(year)s/_%(month)s%(day)s",
        "%(parent)s%(day)s",
    ],
)
def test_a_name_that_could_mean_two_periods_or_lead_elsewhere_is_refused(template: str) -> None:
    with pytest.raises(BadOption):
        Folders(Period.DAY, template)


@pytest.mark.parametrize("period", list(Period))
def test_a_folder_at_the_end_of_time_or_behind_it_is_never_old(period: Period) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    words = {"year": "9999", "month": "12", "day": "31", "hour": "23"}
    folders = Folders(period)
    for year in ("9999", "10000"):
        assert not folders.is_old(folders.name % {**words, "year": year}, now)
        assert not folders.is_old(folders.name % {**words, "year": year}, None)
