"""Places from which a cascade is read: its nodes, the first one that answers is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from londiste.errors import LondisteError
from londiste.settings import NodeSettings

_T = TypeVar("_T")


@dataclass(frozen=True)
class Place:
    """A node that is asked for its cascade; extra -- ``remote_extra_connstr``."""

    dsn: str = field(repr=False)
    queue: str
    extra: str = field(default="", repr=False)

    @classmethod
    def of(cls, settings: NodeSettings) -> Place:
        """The node of these settings."""
        return cls(settings.db, settings.queue_name, settings.remote_extra_connstr)


def first_answer(places: Sequence[Place], ask: Callable[[Place], _T]) -> _T:
    """The answer of the first place that gives one.

    Raises the error of the first place if none answers.
    """
    first: LondisteError | None = None
    for place in places:
        try:
            return ask(place)
        except LondisteError as error:
            first = first or error
    assert first is not None
    raise first
