"""What stops ``replicate`` is shown at once, and told from warnings."""

from __future__ import annotations

import pytest

from londiste.cli.errors import tell
from londiste.cli.setup import preflight
from londiste.errors import StateError
from londiste.monitor.queues.model import Finding, Severity
from londiste.replicate.verdict import Verdict


def finding(severity: Severity, what: str) -> Finding:
    return Finding(severity, "kind", what, f"why {what}", f"mend {what}", "")


def test_all_that_stops_it_is_an_error_and_the_rest_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stopping = tuple(finding(Severity.CRITICAL, name) for name in ("one", "two"))
    rest = (finding(Severity.WARNING, "three"),)
    with pytest.raises(StateError) as raised:
        preflight.require(Verdict(rest, stopping))
    # As the command line ends.
    tell(raised.value)
    assert capsys.readouterr().err.splitlines() == [
        "warning: three: why three; mend three",
        *(
            line
            for name in ("two", "one")
            for line in (
                f"error: replication cannot start: {name}",
                f"detail: why {name}; nothing was changed",
                f"hint: mend {name}",
            )
        ),
    ]
    assert not preflight.require(Verdict(rest))
