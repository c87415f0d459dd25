"""The worlds: which nodes there are, on which servers, and how they reach each other."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def _settings(chance: random.Random) -> dict[str, Any]:
    """Settings of the workers."""
    return {
        "parallel_copies": chance.choice([1, 2]),
        **({"parallel_apply_min_events": 40} if chance.random() < 0.15 else {}),
    }


@dataclass
class World:
    """Nodes before the first step.

    providers -- node -> the one that it reads from, None for the root; in the order of creation.
    servers -- node -> name of its server; C has the oldest release on this machine.
    line -- other nodes reach the root through a proxy that can fall silent.
    owner -- programs and applications are the owner of the tables, and no superuser.
    pooler -- programs and applications connect through a pooler, if there is one on this machine.
    tls -- the pooler speaks TLS, and its certificate is checked.
    merges -- the leaf merges the part of another root, too; it has a second node for that.
    migrates -- the old database migrates to the new one, which is empty: no node is there yet.
    small_disk -- the databases are on a disk that can be filled, if this host mounts file systems.
    newer -- only lives with the newer kinds have it.
    """

    name: str
    providers: dict[str, str | None]
    servers: dict[str, str]
    leaves: tuple[str, ...]
    weight: float = 1.0
    line: bool = False
    owner: bool = False
    pooler: bool = False
    tls: bool = False
    newer: bool = False
    merges: bool = False
    small_disk: bool = False
    migrates: bool = False
    draw: Callable[[random.Random], dict[str, Any]] = _settings

    def others(self) -> tuple[str, ...]:
        """Subscribers of other queues."""
        return (MERGING,) if self.merges else ()


#: In a world that merges: the other root, and its leaf in the database of the first one.
SOURCE, MERGING = "source", "merging"
WORLDS: dict[str, World] = {}


def _world(name: str, providers: dict[str, str | None], servers: str, **more: Any) -> None:
    leaves = tuple(n for n in providers if n.startswith("leaf"))
    WORLDS[name] = World(
        name, providers, dict(zip(providers, servers, strict=True)), leaves, **more
    )


_world("leaf", {"root": None, "leaf": "root"}, "AB", weight=3)
_world("line", {"root": None, "leaf": "root"}, "AB", weight=2, line=True)
_world("owner", {"root": None, "leaf": "root"}, "AB", weight=2, owner=True)
_world("pooler", {"root": None, "leaf": "root"}, "AB", weight=2, pooler=True)
_world("tls", {"root": None, "leaf": "root"}, "AB", pooler=True, tls=True)
_world("older root", {"root": None, "leaf": "root"}, "CA")
_world("older branch", {"root": None, "branch": "root", "leaf": "branch"}, "ACB")
_world("same server", {"root": None, "leaf": "root"}, "AA")
_world("two leaves", {"root": None, "leaf": "root", "leaf2": "root"}, "ABB")
_world("branch", {"root": None, "branch": "root", "leaf": "branch"}, "ABB", weight=3)
_world(
    "two branches",
    {"root": None, "branch": "root", "branch2": "root", "leaf": "branch"},
    "ABAB",
)
_world("merge leaf", {"root": None, "leaf": "root"}, "AB", weight=4, merges=True, newer=True)
_world("small disk", {"root": None, "leaf": "root"}, "AB", weight=2, small_disk=True, newer=True)
_world("migrate", {"old": None, "new": "old"}, "AB", weight=2, migrates=True)
_world("upgrade", {"old": None, "new": "old"}, "CB", weight=2, migrates=True)
_world("migrate by line", {"old": None, "new": "old"}, "AB", weight=2, migrates=True, line=True)
