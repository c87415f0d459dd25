"""Settings file of a replicated pair, as in generation 2: one file for both databases.

``provider_db`` becomes the root of ``pgq_queue_name`` and ``subscriber_db`` a leaf.  A command
works on the leaf, or on the root with ``--set side=provider``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from londiste.dsn import SECRETS, as_location, is_of_one_node, parsed, reduced
from londiste.errors import BadOption

#: The key of ``--set`` that chooses a database of the pair.
SIDE = "side"
PROVIDER, SUBSCRIBER = "provider", "subscriber"

DATABASES = {PROVIDER: "provider_db", SUBSCRIBER: "subscriber_db"}
#: Settings of generation 2 that have no purpose: the ticker and the worker serve it.
_GONE = frozenset(("maint_delay", "mirror_queue", "method"))

#: What is added to the location of the provider if its string names no database: its secrets, for
#: its server.
_BESIDE = frozenset(("host", "hostaddr", "port", *SECRETS))


def is_pair(section: Mapping[str, Any]) -> bool:
    """Whether a section [londiste] describes a pair."""
    return all(section.get(key) for key in DATABASES.values())


def connections(sections: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The connection strings of a file that describes a pair, by their keys; else none."""
    own = sections.get("londiste", {})
    return {key: str(own[key]) for key in DATABASES.values()} if is_pair(own) else {}


def expanded(
    sections: Mapping[str, Mapping[str, Any]], file: Path, side: str | None
) -> dict[str, dict[str, Any]]:
    """The sections of a file, where that of a pair has the settings of one node instead.

    side -- ``provider`` or ``subscriber``; None: the subscriber, and any file.

    Raises BadOption for a side of a file that describes no pair.
    """
    found = {name: dict(keys) for name, keys in sections.items()}
    own = found.get("londiste", {})
    if not is_pair(own):
        if side is not None:
            raise BadOption(
                f"{file}: {SIDE} needs the settings provider_db and subscriber_db",
                hint=f"omit --set {SIDE}={side}",
            )
        return found
    if side not in (None, PROVIDER, SUBSCRIBER):
        raise BadOption(
            f"{SIDE} is {side!r}, not provider or subscriber", hint=f"--set {SIDE}=provider"
        )
    found["londiste"] = _of_node(own, file, side or SUBSCRIBER)
    return found


def _of_node(section: Mapping[str, Any], file: Path, side: str) -> dict[str, Any]:
    keys = {
        key: value
        for key, value in section.items()
        if key not in DATABASES.values() and key not in _GONE
    }
    queue = str(keys.get("pgq_queue_name") or keys.get("queue_name") or "")
    other = PROVIDER if side == SUBSCRIBER else SUBSCRIBER
    here, there = str(section[DATABASES[side]]), str(section[DATABASES[other]])
    keys |= {"db": here, "public_node_location": as_location(here)}
    if as_location(there) != there:
        # Only for that node: a changed location gets none of its secrets.
        whole = is_of_one_node(parsed(there))
        keys["remote_extra_connstr"] = there if whole else reduced(there, _BESIDE.__contains__)
    if side == SUBSCRIBER:
        keys |= {
            "node_name": str(keys.get("job_name") or file.stem),
            "initial_provider_location": as_location(there),
        }
        return keys
    # Several pairs may have this provider, so its names come from the queue.
    keys |= {"node_name": f"{queue}_provider", "consumer_name": f"{queue}_provider"}
    keys.pop("pgq_consumer_id", None)
    if keys.get("pidfile"):
        path = Path(keys["pidfile"])
        keys["pidfile"] = str(path.with_name(f"{path.stem}.provider{path.suffix}"))
    return keys
