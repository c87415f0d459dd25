"""What was reported, and what waits, survives a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from londiste.errors import LondisteError, NodeBusy
from londiste.notify.decide import BEGINS, ENDS, LASTS, State, Tracked
from londiste.notify.findings import Observed
from londiste.notify.store import MOST_WAITING, Store, Stored, Waiting, added, without

FINDING = Observed("q/n/worker", "worker", 2, "q", "n", "what ü", "why", "do")
TRACKED = Tracked(FINDING, 1.5, 30.0, None, 31.5, 2)


def waiting(number: int, event: str = BEGINS, key: str = "k", channel: str = "webhook") -> Waiting:
    return Waiting(f"{number}", channel, key, event, "{}")


def test_the_content_is_read_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.json")
    assert store.read() == Stored()
    content = Stored(State({FINDING.key: TRACKED}, 40.0), (waiting(1), waiting(2, ENDS)))
    store.write(content)
    assert store.read() == content
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert without(content, content.waiting[0]).waiting == (waiting(2, ENDS),)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', '{"version": 1, "tracked": 1}'])
def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(LondisteError, match="not the state of a notifier") as caught:
        Store(path).read()
    assert f"rm {path}" in caught.value.hint


def test_a_directory_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(LondisteError, match="cannot be stored"):
        Store(tmp_path / "no" / "state.json").write(Stored())


def test_a_second_notifier_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.json")
    with store.owned():
        with pytest.raises(NodeBusy, match="another process"), Store(store.path).owned():
            pass
    with Store(store.path).owned():
        pass


def test_a_reminder_replaces_one_that_waits() -> None:
    first = added((), [waiting(1), waiting(2, LASTS), waiting(3, LASTS, "other")])
    assert [one.id for one in added(first, [waiting(4, LASTS)])] == ["1", "3", "4"]


def test_what_began_and_ended_in_a_long_outage_of_the_channel_is_omitted() -> None:
    found: tuple[Waiting, ...] = (waiting(0, BEGINS, "stays"),)
    for number in range(1, MOST_WAITING + 10, 2):
        found = added(found, [waiting(number), waiting(number + 1, ENDS)])
    assert len(found) <= MOST_WAITING
    assert found[0].key == "stays"
    assert [one.event for one in found[-2:]] == [BEGINS, ENDS]
    other = replace(found[0], channel="command")
    assert other in added(found, [other])
