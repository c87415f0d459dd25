"""Whatever an application does to captured tables, replay makes the other side equal.

Random tables, triggers, statements, settings and ways to cut batches; a case is made from its
seed alone.  One that goes wrong is made smaller and shown as the SQL that shows it.
LONDISTE_TEST_SEED and LONDISTE_TEST_CASES choose others.
"""

from __future__ import annotations

import os

import psycopg
import pytest

from tests.capture.pair import Differs, Pair, minimise
from tests.capture.statements import random_case

START = int(os.environ.get("LONDISTE_TEST_SEED") or 1)
FORMS = ("row", "statement", "auto")


def prove(pair: Pair, seeds: range) -> None:
    """Runs the cases of the seeds; the first that goes wrong is shown as small as it gets."""
    version = pair.source.info.server_version // 10000
    forms = FORMS if pair.takes_forms else ()
    for seed in seeds:
        case = random_case(seed, forms=forms, version=version, tame=not forms)
        try:
            pair.run(case)
        except Differs as error:
            small, message = minimise(pair, case)
            pytest.fail(
                f"seed {seed}: {message or error}\n\n{small}\n\n(made smaller; the whole case:"
                f" LONDISTE_TEST_SEED={seed})",
                pytrace=False,
            )
        except psycopg.Error as error:
            pytest.fail(f"seed {seed}: {error!r}\n\n{case}", pytrace=False)
    assert pair.written > len(seeds)
    assert pair.refused < pair.written / 2


def test_replay_of_random_statements_ends_equal(pair: Pair) -> None:
    prove(pair, range(START, START + int(os.environ.get("LONDISTE_TEST_CASES") or 12)))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(4))
def test_replay_of_two_thousand_cases_ends_equal(pair: Pair, part: int) -> None:
    first = START + 1000 + 500 * part
    prove(pair, range(first, first + 500))
