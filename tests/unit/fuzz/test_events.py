"""Whatever a producer writes into a queue is decoded, or refused with the id of the event."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings

from londiste.changes import keyed, rewrite
from londiste.changes.decode import decode_all, singles
from londiste.changes.types import Malformed
from londiste.db.names import TableName
from londiste.errors import BadOption, EventError, LondisteError
from londiste.handlers import registry
from londiste.pgq import blocks
from londiste.pgq.types import Event
from tests.unit.fuzz.corpus import optional, texts

NOW = datetime(2024, 1, 1, tzinfo=UTC)


def event(type: str | None, data: str | None, *extra: str | None) -> Event:
    filled = [*extra, None, None, None, None][:4]
    return Event(7, NOW, 1, None, type, data, *filled)


@settings(max_examples=400)
@given(type=optional, data=optional, extra1=optional, extra2=optional, extra3=optional)
@example(
    type='{"op":"INSERT","table":["a","b"],"pkey":[' + "9" * 5000,
    data="",
    extra1=None,
    extra2=None,
    extra3=None,
)
def test_an_event_is_decoded_or_refused_by_its_id(
    type: str | None,
    data: str | None,
    extra1: str | None,
    extra2: str | None,
    extra3: str | None,
) -> None:
    one = event(type, data, extra1, extra2, extra3)
    for read in (decode_all, singles):
        try:
            list(read(one))
        except EventError as error:
            assert error.event_id == 7
            assert str(error).startswith("event 7 ")


@settings(max_examples=200)
@given(type=texts, data=texts, key=optional)
def test_a_row_is_rewritten_or_refused(type: str, data: str, key: str | None) -> None:
    try:
        rows = rewrite.read(type, data, key)
    except (Malformed, LondisteError):
        return
    if rows is not None:
        assert rows.rows is not None


@settings(max_examples=200)
@given(texts)
def test_types_names_and_handlers_are_read_or_refused(text: str) -> None:
    with contextlib.suppress(Malformed):
        keyed.read_type(text)
    try:
        assert str(TableName.parse(text)) in (text, f"public.{text}")
    except BadOption as error:
        assert error.hint
    try:
        registry.make(text)
    except LondisteError as error:
        assert "\n" not in str(error).partition("\nhint")[0] or error.hint


# No text of the server has the character 0.
@given(texts.map(lambda text: text.replace("\0", "")))
@example("\\")
def test_a_field_of_copy_is_the_same_after_escaping(text: str) -> None:
    assert blocks.unescaped(blocks.escaped(text)) == text


@settings(max_examples=200)
@given(texts)
def test_a_field_of_copy_that_is_damaged_is_read_somehow(text: str) -> None:
    found = blocks.unescaped(text)
    assert found is None or isinstance(found, str)


def test_a_secret_of_an_event_is_not_in_its_error() -> None:
    with pytest.raises(EventError) as refused:
        list(decode_all(event("I:id", "id=1&secret=hunter2&secret=hunter2", "public.t")))
    assert "hunter2" not in str(refused.value)
