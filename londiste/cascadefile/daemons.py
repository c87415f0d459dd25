"""Daemons of a cascade file, for ``londiste run``: tickers, workers, audits, jobs, console."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from londiste.daemon.supervisor import Daemon
from londiste.errors import BadOption
from londiste.settings import WorkerSettings
from londiste.settings.cascade_file import CascadeFile, did_you_mean
from londiste.settings.fields import ENV_PREFIX
from londiste.settings.loading import OF_A_WORKER, OF_THE_PROCESS

TICKER, WORKER, JOB = range(3)

#: Settings of a worker that only a restart changes.
_FIXED = (*OF_A_WORKER, *OF_THE_PROCESS)
_COMMANDS = {"lake": ("lake", "run"), "dispatch": ("dispatch",)}


def daemons(
    file: CascadeFile,
    chosen: Collection[str],
    program: Sequence[str],
    settings: Callable[[str], WorkerSettings],
) -> list[Daemon]:
    """The daemons of the chosen nodes; of all if none is chosen.

    program -- the command line before ``--node``; settings -- of the worker of a node.
    Raises BadOption for an unknown node, or wrong settings.
    """
    for name in chosen:
        if name not in file.nodes:
            raise BadOption(f"{file.path}: no node {name}", hint=did_you_mean(name, file.nodes))
    nodes = [node for node in file.nodes.values() if not chosen or node.name in chosen]
    # Its settings name the databases, and it reads them again after SIGHUP.
    found = [
        Daemon(f"ticker {node.name}", (*program, "--node", node.name, "ticker"), TICKER)
        for node in nodes
        if chosen and node.role != "leaf"
    ] or ([Daemon("ticker", (*program, "ticker"), TICKER)] if not chosen else [])
    for node in nodes:
        own = settings(node.name)
        fixed = tuple(getattr(own, key) for key in _FIXED)
        argv = (*program, "--node", node.name, "worker")
        found.append(Daemon(f"worker {node.name}", argv, WORKER, fixed))
        if own.audit_share and node.role != "root":
            argv = (*program, "--node", node.name, "compare", "--continuous")
            found.append(Daemon(f"audit {node.name}", argv, JOB, (own,)))
    for kind, jobs in file.jobs.items():
        for name, keys in jobs.items():
            if str(keys.get("node", file.root.name)) in {node.name for node in nodes}:
                # They do not read their settings again.
                fixed = (file.nodes[str(keys.get("node", file.root.name))].db, repr(keys))
                argv = (*program, "--node", name, *_COMMANDS[kind])
                found.append(Daemon(f"{kind} {name}", argv, JOB, fixed))
    if _notifies(file.common["notify"]):
        some = [word for name in chosen for word in ("--node", name)]
        found.append(Daemon("notify", (*program, "notify", *some), JOB))
    if "web" in file.common and not chosen:
        # The console reads its users again.
        keys = {key: value for key, value in file.common["web"].items() if key != "users"}
        fixed = (repr(keys), *(node.db for node in nodes))
        found.append(Daemon("web", (*program, "web"), JOB, fixed))
    return found


def _notifies(section: Mapping[str, Any]) -> bool:
    """Whether section [notify] has a channel; a URL that is a secret may be in the environment."""
    by_environment = bool(section) and bool(os.environ.get(f"{ENV_PREFIX}WEBHOOK"))
    return by_environment or bool(section.get("webhook") or section.get("command"))


def refuse_shared(path: Path, addresses: Collection[tuple[str, str]]) -> None:
    """Raises BadOption if two daemons of one process have the same address.

    addresses -- (section, address).
    """
    seen: dict[str, str] = {}
    for section, address in addresses:
        if address and address in seen:
            raise BadOption(
                f"{path}: metrics = {address} in {seen[address]} and in {section}",
                hint="set metrics in [run] only: it shows all nodes",
            )
        seen[address] = section
