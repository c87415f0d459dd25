"""What is stored of an error has no value of a row."""

from __future__ import annotations

import psycopg
import pytest

from londiste.applier.event_errors import stored_error
from londiste.errors import LondisteError


@pytest.mark.parametrize(
    ("detail", "stored"),
    [
        ("", "refused"),
        ("Failing row contains (1, (a) secret).", "refused (Failing row contains (…).)"),
        (
            "Failing row contains (1, secret\n).; chunk 0 of public.t",
            "refused (Failing row contains (…).; chunk 0 of public.t)",
        ),
        (
            "Key (id, lower(v))=(1, secret (x)) already exists.",
            "refused (Key (id, lower(v))=(…) already exists.)",
        ),
        ("chunk 0 of public.t", "refused (chunk 0 of public.t)"),
    ],
)
def test_details_of_the_server_have_no_values(detail: str, stored: str) -> None:
    assert stored_error(LondisteError("refused", detail=detail)) == stored


@pytest.mark.parametrize("value", ["secret", '{"name": "secret"}', 'a "secret"\n" b'])
def test_a_value_that_a_type_refuses_is_not_stored(value: str) -> None:
    error = LondisteError(f'invalid input syntax for type integer: "{value}"')
    error.__cause__ = psycopg.errors.InvalidTextRepresentation()
    assert stored_error(error) == "invalid input syntax for type integer: ***"
    error.__cause__ = psycopg.errors.UndefinedColumn()
    assert "secret" in stored_error(error)
