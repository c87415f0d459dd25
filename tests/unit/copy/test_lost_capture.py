"""A table that its provider does not capture is not copied."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from londiste.copy import setup
from londiste.db.names import TableName
from londiste.errors import StateError


def test_the_hint_restores_the_capture_with_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    name = TableName("public", "my t")
    sides: Any = SimpleNamespace(provider=None, queue="q", name=name)
    monkeypatch.setattr(setup.tables, "lost_capture", lambda *_: "has lost its trigger")
    monkeypatch.setattr(setup.lost_rows, "find", lambda *_: {})
    with pytest.raises(StateError, match=r"table public\.there of the provider") as caught:
        setup.require_captured(sides, TableName("public", "there"))
    assert caught.value.hint == (
        "with the settings of the provider: londiste triggers --restore 'public.my t'; the copy"
        " then restarts automatically"
    )
    monkeypatch.setattr(setup.tables, "lost_capture", lambda *_: None)
    setup.require_captured(sides, name)
