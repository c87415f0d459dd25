"""Places from which a cascade is read: its nodes, the first one that answers is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from londiste import settings as reading
from londiste.errors import LondisteError
from londiste.settings import NodeSettings, WorkerSettings
from londiste.settings.cascade_file import CascadeFile

_T = TypeVar("_T")


@dataclass(frozen=True)
class Place:
    """A node that is asked for its cascade.

    extra -- ``remote_extra_connstr``.  in_file -- nodes that the file of the cascade has.
    """

    dsn: str = field(repr=False)
    queue: str
    extra: str = field(default="", repr=False)
    in_file: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: NodeSettings, file: CascadeFile | None = None) -> Place:
        """The node of these settings; file -- of its cascade, if they are from one."""
        names = () if file is None else tuple(file.nodes)
        return cls(settings.db, settings.queue_name, settings.remote_extra_connstr, names)


def of_file(file: CascadeFile, overrides: Mapping[str, str]) -> list[Place]:
    """The nodes of a cascade's file, the root first: the first one that answers knows the rest."""
    return [
        Place.of(reading.load(WorkerSettings, file.path, overrides, node=name), file)
        for name in file.nodes
    ]


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
