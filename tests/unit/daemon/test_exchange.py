"""When an exchange with a server is given up, by what has come."""

from __future__ import annotations

from londiste.db.sessions import exchange
from londiste.db.sessions.exchange import Exchange


def test_a_whole_answer_has_one_deadline() -> None:
    one = Exchange(100.0, 10.0, whole=True)
    for second in range(10):
        assert not one.is_over(100.0 + second)
        one.got(100.0 + second, answer=True)
    assert one.is_over(110.0)
    assert one.why() == "the server has sent no complete answer for 10 s"
    assert Exchange(0.0, 1.5, whole=True).why() == "the server has not responded for 1.5 s"


def test_only_an_answer_that_grows_gives_more_time() -> None:
    one = Exchange(100.0, 10.0, whole=False)
    one.got(109.0, answer=True)
    one.got(118.0, answer=False)
    assert not one.is_over(118.9) and one.is_over(119.0) and one.heard
    one.got(118.5, answer=True)
    assert not one.is_over(119.0) and not one.heard
    assert one.why() == "the server has not responded for 10 s"


def test_an_answer_that_arrives_for_long_is_reported_once() -> None:
    one = Exchange(100.0, 10.0, whole=False)
    assert [one.is_late(at) for at in (109.9, 110.0, 200.0)] == [False, True, False]
    # The other one is given up then.
    assert not Exchange(100.0, 10.0, whole=True).is_late(200.0)


def test_the_size_of_a_whole_answer_is_limited() -> None:
    one = Exchange(0.0, 10.0, whole=True)
    counted = [one.is_counted() for _ in range(40)]
    assert counted == [False] * 32 + [True] * 8
    # Libpq takes a part of what waits, or all of one long row.
    for _ in range(exchange.LARGEST_ANSWER // 16_384):
        one.count(6_000_000, 6_000_000)
        assert not one.is_over(0.0)
    one.count(6_000_000, 0)
    assert one.is_over(0.0)
    assert one.why() == "the answer of the server is larger than 256 MB"
