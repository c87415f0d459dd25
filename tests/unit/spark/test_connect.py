"""Addresses of servers of Spark Connect, and what is said without one."""

from __future__ import annotations

import logging

import pytest

from londiste.engine.spark import connect, session
from londiste.errors import BadOption, SparkUnavailable


@pytest.mark.parametrize(
    ("server", "where"),
    [
        ("sc://spark", "spark:15002"),
        ("sc://spark:7/;use_ssl=true;token=secret", "spark:7"),
        ("sc://[::1]:7", "[::1]:7"),
        ("sc://user:secret@spark", "spark:15002"),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(server: str, where: str) -> None:
    assert connect.address(server) == where


@pytest.mark.parametrize("server", ["local[2]", "spark://secret:7077", "sc://", "sc://secret:no"])
def test_what_is_no_server_is_refused_and_not_shown(server: str) -> None:
    with pytest.raises(BadOption) as refused:
        connect.address(server)
    assert "secret" not in f"{refused.value} {refused.value.hint}"


def test_a_server_that_does_not_answer_is_named_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(SparkUnavailable) as refused:
        session.carrier({"spark.remote": "sc://127.0.0.1:1/;token=secret"})
    assert str(refused.value) == "Spark: the server does not answer"
    assert refused.value.detail.startswith("sc://127.0.0.1:1: ")
    assert "correct spark.remote" in refused.value.hint
    assert "secret" not in f"{refused.value.detail} {refused.value.hint} {caplog.text}"
    assert not session.is_ready()
