"""``migrate run`` names the next step, unless it takes that step itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from londiste.cli.hints import Given
from londiste.cli.migrate import start
from londiste.cli.migrate.verify import Differences
from londiste.copy.status import TableStatus
from londiste.daemon.signals import Signals
from londiste.errors import StateError
from londiste.migrate.phase import NEXT, Phase, Progress
from londiste.replicate.state import NodeState


@pytest.mark.parametrize("own", [(), (Phase.IN_STEP,)])
def test_a_step_that_the_command_takes_itself_is_not_named(
    own: tuple[Phase, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = Phase.IN_STEP
    seen = Progress(now, "old", 2, 2, 0.0, (), (), (), NEXT[now])
    monkeypatch.setattr(start, "_look", lambda pair, troubles: (seen, []))
    monkeypatch.setattr("londiste.cli.errors._call", Given())
    nothing, children = cast(Any, None), cast(Any, SimpleNamespace(look=lambda: None))
    assert start.stay(nothing, Signals(), children, (now,), own=own) is now
    printed = capsys.readouterr().err
    assert "in step: 2 of 2 tables in sync" in printed
    assert ("next: londiste migrate verify" in printed) is (not own)


def test_the_end_without_a_switch_says_what_differs() -> None:
    assert not Differences() and str(Differences(["t"])) == "rows differ"
    lacks = "table t has no index i in the new database"
    assert str(Differences([], [lacks])) == f"objects of the two databases differ ({lacks})"
    both = Differences(["t"], [lacks])
    assert str(both) == f"rows and objects of the two databases differ ({lacks})"


def test_the_wait_for_copies_that_only_an_operator_continues_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = Phase.COPYING
    seen = Progress(now, "old", 2, 1, 0.0, (), (), (), NEXT[now])
    late = NodeState("new", False, 2, 1, 0, 0, copies=(TableStatus("t", None),), copies_paused=True)
    monkeypatch.setattr(start, "_look", lambda pair, troubles: (seen, [late]))
    nothing, children = cast(Any, None), cast(Any, SimpleNamespace(look=lambda: None))
    with pytest.raises(StateError, match="an operator has to continue the copy of table t to new"):
        start.stay(nothing, Signals(), children, start.READY)
