"""Where a command about a whole cascade starts: at the root of its file, or at any node.

``status``, ``metrics`` and the console ask the first node that answers.  Other commands start at
the root; the error of a root that does not answer names another node.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from londiste.cascade.daemons import start_worker
from londiste.cli import errors
from londiste.db.names import word
from londiste.dsn import describe_dsn
from londiste.monitor.place import Place, of_file
from londiste.settings import NodeSettings, cascade_file, database_variable

#: The first has asked all nodes; --node of the second is the node that is switched.
_NO_OFFER = ("status", "change-provider")


def places(config: Path | None, node: str | None, overrides: Mapping[str, str]) -> list[Place]:
    """The nodes of the file of a cascade, the root first; none if a node is given, or no such file.

    Raises BadOption.
    """
    file = None if config is None or node is not None else cascade_file.read(config)
    if file is None:
        return []
    database_variable.require_known(file)
    return of_file(file, overrides)


def place(config: Path | None, settings: NodeSettings) -> Place:
    """The node of these settings, with the names of all nodes if they are from a cascade's file."""
    return Place.of(settings, None if config is None else cascade_file.read(config))


def offer_another(config: Path | None, command: str, dsn: str) -> None:
    """Lets the error about this database, of the root, name a node to ask instead."""
    file = None if config is None else cascade_file.read(config)
    if file is None or command in _NO_OFFER:
        return
    others = [node for node in file.nodes.values() if node.name != file.root.name]
    if others:
        # A branch knows as much as the root.
        named = next((node for node in others if node.role == "branch"), others[0])
        errors.offer_another_node(describe_dsn(dsn), named.name)


def worker_command(config: Path | None, overrides: Mapping[str, str]) -> Callable[[str, str], str]:
    """What starts the worker of a node: with the file of the call, if that has its settings.

    Returns a function of the node, and of the node of these settings, '' where it is not known.
    """
    if config is None or overrides.keys() & {"db", "queue_name"}:
        return lambda node, local: start_worker(node)
    file = cascade_file.read(config)
    program = f"londiste -c {shlex.quote(str(config))}"

    def command(node: str, local: str) -> str:
        if file is not None and node in file.nodes:
            return f"{program} --node {word(node)} worker"
        if file is None and node == local:
            return f"{program} worker"
        return start_worker(node)

    return command
