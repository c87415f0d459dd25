"""``dispatch --register --with-copy`` of tables with a native capture."""

from __future__ import annotations

import pytest

from londiste.errors import BadOption
from tests.integration.consumer.test_dispatch_first_copy import (
    dispatcher,
    ends,
    fill,
    registered,
    same,
    ticks,
)
from tests.integration.consumer.test_dispatch_presets import QUEUE, Ends

__all__ = ["ends", "ticks"]


@pytest.mark.parametrize("form", ["row", "statement"])
def test_every_row_comes_once_from_a_native_capture(ends: Ends, ticks: None, form: str) -> None:
    fill(ends)
    ends.source.execute(
        "drop trigger captured on t;"
        f" select londiste.create_capture('{QUEUE}', 't', array['form={form}'])"
    )
    made = dispatcher(ends)
    assert made.register()
    ends.source.execute("update t set v = 'later' where id = 2; delete from t where id = 3")
    assert same(ends, made)


def test_rows_that_a_native_capture_would_leave_out_are_refused(ends: Ends, ticks: None) -> None:
    fill(ends)
    ends.source.execute(
        "drop trigger captured on t;"
        f" select londiste.create_capture('{QUEUE}', 't', array['ignore=v'])"
    )
    with pytest.raises(BadOption, match=r"options of trigger _londiste_\S+: ignore"):
        dispatcher(ends).register()
    assert ends.rows("t") == {} and registered(ends) == []
