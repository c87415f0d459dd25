"""File of a whole cascade: nodes, tables, queue and daemons in one TOML document.

A TOML file with a section ``[nodes.NAME]`` is one.  ``values`` gives the settings of one node as if
it had a file of its own, so every program reads them like any other settings.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from londiste import configfile, wording
from londiste.dsn import as_location, place
from londiste.errors import BadOption
from londiste.settings.cascade_keys import (
    CREATE,
    KEYLESS,
    NODE_KEYS,
    ROLES,
    RULE_KEYS,
    TABLES_KEYS,
    TablesSection,
)
from londiste.settings.earlier import OTHER_NAMES
from londiste.settings.kinds import (
    NotifySettings,
    RunSettings,
    TickerSettings,
    WebSettings,
    WorkerSettings,
)

log = logging.getLogger(__name__)

#: Sections besides [nodes.NAME]; those of jobs have a section per job.
JOBS = {"lake": "lakes", "dispatch": "dispatchers"}
SECTIONS = (
    "nodes", "tables", "queue", "ticker", "worker", "spark", "run", "web", "notify",
    *JOBS.values(),
)  # fmt: skip

#: Sections that are settings of programs, apart from those of single nodes and jobs.
_COMMON = ("worker", "ticker", "spark", "run", "notify")

#: Settings that the file itself decides for each node; the environment does not change them, but
#: see ``database_variable``.
OWN_KEYS = frozenset(
    {
        "db",
        "queue_name",
        "job_name",
        "consumer_name",
        "node_name",
        "public_node_location",
        "initial_provider_location",
        "databases",
    }
)


@dataclass(frozen=True)
class NodeSection:
    """Section ``[nodes.NAME]``.

    location -- connection string for the other nodes, without a password.
    worker -- consumer name of its worker.
    settings -- settings of its worker that differ from ``[worker]``.
    """

    name: str
    db: str = field(repr=False)
    role: str
    provider: str | None
    location: str
    worker: str
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tables: TablesSection = field(default_factory=TablesSection)


@dataclass(frozen=True)
class CascadeFile:
    """A parsed and checked file of a cascade.

    nodes -- by name, each after its provider.
    tables -- None if the file has no section ``[tables]``: then tables are not managed by it.
    parameters -- of the queue.
    jobs -- lakes and dispatchers by the kind of program and name, with their keys.
    """

    path: Path
    text: str = field(repr=False)
    nodes: Mapping[str, NodeSection]
    tables: TablesSection | None
    queue: str
    parameters: Mapping[str, str]
    common: Mapping[str, Mapping[str, Any]] = field(repr=False)
    jobs: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(repr=False)

    @property
    def root(self) -> NodeSection:
        return next(node for node in self.nodes.values() if node.role == "root")

    def at(self, dsn: str) -> str | None:
        """The name of the node in the database of a connection string; None if there is none."""
        for node in self.nodes.values():
            if same_place(dsn, (node.db, node.location)):
                return node.name
        return None

    def chosen(self, name: str | None, *, section: str, anywhere: bool) -> str:
        """The node, or the job of this kind of program, that a command is about.

        anywhere -- without a name it is the root, otherwise a name is required.
        Raises BadOption.
        """
        jobs = self.jobs.get(section, {})
        if name is None and len(jobs) == 1:
            return next(iter(jobs))
        if name is None and jobs:
            raise BadOption(
                f"{self.path}: no {section} named",
                hint=f"give one of {', '.join(jobs)}: --node {next(iter(jobs))}",
            )
        if name is None and (anywhere or len(self.nodes) == 1):
            return self.root.name
        if name is None:
            raise BadOption(
                f"{self.path}: several nodes, and none is named",
                hint=f"give one of {', '.join(self.nodes)}: --node {self.root.name}",
            )
        known = (*self.nodes, *jobs)
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            raise BadOption(
                f"{self.path}: no node {name}",
                hint=f"did you mean --node {close[0]}?"
                if close
                else f"the nodes are {', '.join(known)}",
            )
        return name

    def values(
        self, section: str, name: str, *, only: bool = True
    ) -> Iterator[tuple[str, Any, str]]:
        """Key, value and place of each setting of a node or job, for programs of this section.

        only -- the ticker serves this node; otherwise all nodes with a queue.
        """
        if section == "migrate":
            return
        job = self.jobs.get(section, {}).get(name)
        node = self.nodes[str(job.get("node", self.root.name)) if job is not None else name]
        head = f"nodes.{node.name}"
        if section == "ticker":
            if not {"databases", "db", "base_connstr"} & self.common["ticker"].keys():
                queues = [n.db for n in self.nodes.values() if n.role != "leaf"]
                queues = [node.db] if only else queues
                yield "databases", tuple(queues), self._place("nodes", None)
            yield from self._of("ticker")
            return
        if section in ("run", "notify", "web"):
            yield from self._of(section)
            return
        yield "db", node.db, self._place(head, "db")
        yield "queue_name", self.queue, self._place("queue", "name")
        if job is not None:
            yield "job_name", name, self._place(f"{JOBS[section]}.{name}", None)
            for key, value in job.items():
                if key != "node":
                    yield key, value, self._place(f"{JOBS[section]}.{name}", key)
            return
        if section != "londiste":
            return
        yield "job_name", node.worker, self._place(head, "worker")
        yield "node_name", node.name, self._place(head, None)
        yield "public_node_location", node.location, self._place(head, "location")
        if node.provider is not None:
            above = self.nodes[node.provider].db
            yield "initial_provider_location", above, self._place(head, "provider")
        yield from self._of("worker")
        for key, value in node.settings.items():
            yield key, value, self._place(head, key)

    def spark(self) -> dict[str, Any]:
        """The keys of section ``[spark]``."""
        return dict(self.common["spark"])

    def _of(self, section: str) -> Iterator[tuple[str, Any, str]]:
        for key, value in self.common.get(section, {}).items():
            yield key, value, self._place(section, key)

    def _place(self, section: str, key: str | None) -> str:
        return f"{self.path}:{line(self.text, section, key)}"


def same_place(dsn: str, others: Iterable[str]) -> bool:
    """Whether a connection string means the database of one of the others.  Raises BadOption."""
    return place(dsn, os.environ) in [place(other, os.environ) for other in others]


def is_cascade(document: Mapping[str, Any]) -> bool:
    """Whether a TOML document is the file of a whole cascade."""
    return isinstance(document.get("nodes"), dict)


def read(file: Path) -> CascadeFile | None:
    """The file of a cascade; None for any other settings file.  Raises BadOption."""
    if file.suffix == ".ini":
        return None
    text, document = configfile.document(file)
    return parse(file, text, document) if is_cascade(document) else None


def parse(file: Path, text: str, document: Mapping[str, Any]) -> CascadeFile:
    """Checks a document and gives it as values.  Raises BadOption with file and line."""

    def wrong(section: str, key: str | None, message: str, hint: str) -> BadOption:
        return BadOption(f"{file}:{line(text, section, key)}: {message}", hint=hint)

    def known(section: str, keys: Collection[str], allowed: Collection[str]) -> None:
        for key in keys:
            if key not in allowed and OTHER_NAMES.get(key) not in allowed:
                hint = did_you_mean(key, allowed)
                raise wrong(section, key, f"unknown setting {key} in [{section}]", hint)

    def tables(section: str, raw: Mapping[str, Any]) -> TablesSection:
        rules = {key: value for key, value in raw.items() if isinstance(value, dict)}
        known(section, raw.keys() - rules.keys(), TABLES_KEYS)
        for name, rule in rules.items():
            known(f'{section}."{name}"', rule, RULE_KEYS)
        for key, values in (("create", CREATE), ("keyless", KEYLESS)):
            if raw.get(key, values[0]) not in values:
                hint = f"use one of {', '.join(filter(None, values))}"
                raise wrong(section, key, f"{key} = {raw[key]!r}: unknown", hint)
        if not isinstance(raw.get("allow_code", False), bool):
            hint = "write allow_code = true"
            raise wrong(section, "allow_code", "allow_code: neither true nor false", hint)
        lists: dict[str, tuple[str, ...]] = {}
        for key in ("include", "exclude", "sequences"):
            if key in raw:
                value = [raw[key]] if isinstance(raw[key], str) else raw[key]
                if not isinstance(value, list) or not all(isinstance(t, str) for t in value):
                    raise wrong(
                        section, key, f"{key}: not a list of names", f'write {key} = ["public.*"]'
                    )
                lists[key] = tuple(value)
        return TablesSection(
            lists.get("include"),
            lists.get("exclude", ()),
            raw.get("create", "full"),
            str(raw.get("copy_mode", "")),
            raw.get("keyless", ""),
            raw.get("allow_code", False),
            rules,
            lists.get("sequences"),
        )

    for section, value in document.items():
        if section not in SECTIONS or not isinstance(value, dict):
            raise wrong(
                section, None, f"unknown section [{section}]", did_you_mean(section, SECTIONS)
            )
    if not document["nodes"]:
        raise wrong("nodes", None, "no node in [nodes]", "write a section [nodes.NAME]")
    queue = dict(document.get("queue", {}))
    queue_name = str(queue.pop("name", file.stem))
    worker_keys = set(WorkerSettings.model_fields) - OWN_KEYS - {"spark"}
    found: dict[str, NodeSection] = {}
    for name, raw in document["nodes"].items():
        section = f"nodes.{name}"
        if not isinstance(raw, dict):
            raise wrong("nodes", name, f"nodes.{name} is no section", f"write [nodes.{name}]")
        known(section, raw, {*NODE_KEYS, *worker_keys})
        for key in NODE_KEYS.keys() & raw.keys():
            if not isinstance(raw[key], dict if key == "tables" else str):
                hint = f"write [{section}.tables]" if key == "tables" else f'write {key} = "…"'
                raise wrong(section, key, f"node {name}: {key} is of another type", hint)
        for key in ("db", "role"):
            if key not in raw:
                raise wrong(
                    section, None, f"node {name}: {key} is missing", f'write {key} = "…" in it'
                )
        if raw["role"] not in ROLES:
            hint = f"use one of {', '.join(ROLES)}"
            raise wrong(section, "role", f"node {name}: unknown role {raw['role']!r}", hint)
        if (raw["role"] == "root") == ("provider" in raw):
            raise wrong(
                section,
                "provider",
                f"node {name}: a {raw['role']} has "
                + ("no provider" if raw["role"] == "root" else "a provider"),
                "remove provider" if raw["role"] == "root" else 'write provider = "NODE"',
            )
        found[name] = NodeSection(
            name,
            raw["db"],
            raw["role"],
            raw.get("provider"),
            raw.get("location") or as_location(raw["db"]),
            raw.get("worker") or f"{queue_name}_{name}",
            {key: value for key, value in raw.items() if key not in NODE_KEYS},
            tables(f"{section}.tables", raw.get("tables", {})),
        )
    roots = [node.name for node in found.values() if node.role == "root"]
    if len(roots) != 1:
        raise wrong(
            "nodes",
            None,
            f"{len(roots)} roots" + (f": {', '.join(roots)}" if roots else ""),
            'give one node, and no other, role = "root"',
        )
    for node in found.values():
        above = found.get(node.provider or "")
        if node.provider is not None and above is None:
            hint = did_you_mean(node.provider, found)
            raise wrong(f"nodes.{node.name}", "provider", f"unknown provider {node.provider}", hint)
        if above is not None and above.role == "leaf":
            raise wrong(
                f"nodes.{node.name}",
                "provider",
                f"provider {above.name} is a leaf",
                f'give {above.name} role = "branch"',
            )
    ordered = _after_providers(found)
    if len(ordered) < len(found):
        name = next(name for name in found if name not in ordered)
        raise wrong(
            f"nodes.{name}",
            "provider",
            f"node {name}: its providers do not lead to the root",
            "correct provider",
        )
    common = {key: dict(document.get(key, {})) for key in _COMMON}
    known("worker", common["worker"], worker_keys)
    known("ticker", common["ticker"], TickerSettings.model_fields)
    known("run", common["run"], RunSettings.model_fields)
    known("notify", common["notify"], NotifySettings.model_fields)
    if "web" in document:
        # Only then londiste run starts the console.
        common["web"] = dict(document["web"])
        known("web", common["web"], WebSettings.model_fields)
    jobs = {kind: dict(document.get(section, {})) for kind, section in JOBS.items()}
    for kind, of_kind in jobs.items():
        for name, raw in of_kind.items():
            section = f"{JOBS[kind]}.{name}"
            if not isinstance(raw, dict):
                raise wrong(JOBS[kind], name, f"{section} is no section", f"write [{section}]")
            if name in found:
                raise wrong(section, None, f"{name} is also a node", "choose another name")
            if str(raw.get("node", roots[0])) not in found:
                hint = did_you_mean(str(raw["node"]), found)
                raise wrong(section, "node", f"unknown node {raw['node']}", hint)
    result = CascadeFile(
        file,
        text,
        ordered,
        tables("tables", document["tables"]) if "tables" in document else None,
        queue_name,
        {key: _parameter(value) for key, value in queue.items()},
        common,
        jobs,
    )
    _warn_of_passwords(file, document)
    return result


def line(text: str, section: str, key: str | None) -> int:
    """The line of a key in a section, of the section, or of the first one below it; else 1."""
    current, head, below = "", 0, 0
    for number, content in enumerate(text.splitlines(), 1):
        found = re.match(r"\s*\[\s*(.+?)\s*\]\s*(#.*)?$", content)
        if found:
            current = found[1].replace('"', "")
            if current == section.replace('"', ""):
                head = number
            elif current.startswith(section.replace('"', "") + "."):
                below = below or number
        elif current == section.replace('"', "") and key is not None:
            name = re.match(r"\s*\"?([^\s=\"]+)\"?\s*=", content)
            if name and name[1] == key:
                return number
    return head or below or 1


def did_you_mean(word: str, known: Collection[str]) -> str:
    """The hint for a word that is none of these."""
    rest = f"use one of {', '.join(known)}" if len(known) < 20 else "londiste config lists them"
    return wording.did_you_mean(word, known, rest)


def _after_providers(nodes: Mapping[str, NodeSection]) -> dict[str, NodeSection]:
    """The nodes, each after its provider; without those that no root is above."""
    ordered = {name: node for name, node in nodes.items() if node.role == "root"}
    while True:
        level = {
            name: node
            for name, node in nodes.items()
            if name not in ordered and node.provider in ordered
        }
        if not level:
            return ordered
        ordered |= level


def _parameter(value: Any) -> str:
    """A parameter of the queue as the text that sets it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


_warned: set[Path] = set()


def _warn_of_passwords(file: Path, document: Mapping[str, Any]) -> None:
    """Warns, once in a process, of passwords that other users can read."""
    if file in _warned or not any(map(configfile.has_password, _texts(document))):
        return
    if stat.S_IMODE(file.stat().st_mode) & 0o077:
        _warned.add(file)
        log.warning("%s contains passwords and other users can read it: chmod 600 %s", file, file)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
