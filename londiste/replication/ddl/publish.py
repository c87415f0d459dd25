"""``execute``: runs scripts on the root and sends them to all nodes, or on one node only.

Scripts of one command are one transaction, as far as their statements allow: a part that cannot be
in one runs between two transactions, each followed by a tick.  An interrupted command can be
repeated: finished parts are skipped.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.daemon.loop import pause
from londiste.db.advisory_lock import acquire_singleton_lock
from londiste.db.connection import IDLE_SECONDS, Connection, describe_dsn, session
from londiste.db.names import word
from londiste.errors import (
    BadOption,
    Deadlock,
    LockTimeout,
    LondisteError,
    NodeBusy,
    NotRoot,
    ScriptFailed,
    StateError,
    from_database,
)
from londiste.orchestration.connections import Connections
from londiste.orchestration.lock_retry import end_transactions, lock_holders
from londiste.pgq import queues
from londiste.replication.ddl import sqlapi as state
from londiste.replication.ddl.agreement import require_new_here
from londiste.replication.ddl.classify import ScriptPart, StatementTiming, parts
from londiste.replication.ddl.execute import run_part, wanted_here
from londiste.replication.ddl.failures import choices
from londiste.replication.ddl.header import Attributes, hide
from londiste.replication.ddl.non_transactional import run_alone
from londiste.replication.ddl.sqlapi import State
from londiste.replication.ddl.volatile import require_same_everywhere

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Planned:
    """One part, and the conditions of the script that it comes from."""

    part: ScriptPart
    attrs: str | None


def from_file(path: str, read: Callable[[str], bytes]) -> tuple[str, str]:
    """Name and text of a script.  Raises BadOption when it cannot be read."""
    try:
        text = read(path).decode("utf-8-sig")
    except OSError as error:
        raise BadOption(f"{path}: {error.strerror}", hint="name a file with SQL") from error
    except UnicodeDecodeError as error:
        raise BadOption(
            f"{path} is not in UTF-8: byte {error.start}", hint="convert it: iconv -t UTF-8"
        ) from error
    return Path(path).name, text


def name_of(text: str) -> str:
    """The name of a script without a file: the same text has the same name."""
    return f"sql-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def plan(scripts: Sequence[tuple[str, str]]) -> list[Planned]:
    """The parts of some scripts, in order.

    scripts -- name and text.  Raises BadOption for statements that cannot be replicated.
    """
    found: list[Planned] = []
    names = [name for name, _ in scripts]
    for name, text in scripts:
        if names.count(name) > 1:
            raise BadOption(
                f"two scripts have the name {name}",
                detail="the name of a script is that of its file without the folders",
                hint="rename one of them",
            )
        try:
            attributes = Attributes.of_script(text)
            made = parts(name, hide(text, attributes.placeholders()), text)
        except BadOption as error:
            if error.message.startswith((name, f"script {name}")):
                raise
            raise BadOption(
                f"{name}, {error.message}", detail=error.detail, hint=error.hint
            ) from error
        found += [Planned(part, attributes.encode()) for part in made]
    return found


@dataclass
class Runner:
    """Runs planned parts on one node.

    lock_timeout -- seconds that a statement waits for its locks, before others are let through.
    patience -- seconds in which that is retried.
    answer_seconds -- a server that sends nothing for this time and does not work is unreachable.
    report -- is called with the outcome of each part.
    volatile -- allows different values on each node.
    """

    sites: Connections
    dsn: str
    queue: str
    local: bool
    lock_timeout: float
    patience: float
    answer_seconds: float
    report: Callable[[str], None]
    volatile: bool = False

    def node(self) -> NodeInfo:
        """The node, if it accepts scripts.  Raises NotRoot, BadOption."""
        node = nodes.get_node_info(self.sites.at(self.dsn), self.queue)
        root = node.type is NodeType.ROOT
        if root and self.local:
            raise BadOption(
                f"node {node.name} is the root: its scripts are for all nodes",
                hint="omit --local, or run the script with psql",
            )
        if not root and not self.local:
            raise NotRoot(
                f"node {node.name} is not the root of queue {self.queue}",
                detail="scripts reach a node through the queue, in order with the rows",
                hint="run the command on the root, or with --local for this node only",
            )
        return node

    def run(self, planned: Sequence[Planned]) -> None:
        """Runs the parts that have not run yet."""
        node = self.node()
        with self._session() as conn:
            other = acquire_singleton_lock(conn, f"execute {self.queue}")
            if other is not None:
                raise NodeBusy(
                    f"queue {self.queue}: another session runs scripts on node {node.name}",
                    detail=other,
                    hint="wait until it ends",
                )
            self._require(conn, planned)
            for group in _groups(planned):
                if group[0].part.way is StatementTiming.AFTER:
                    self._alone(conn, node, group[0])
                else:
                    self._together(conn, node, group)
                if not self.local:
                    self._tick(conn)

    def check(self, planned: Sequence[Planned]) -> None:
        """Raises what ``run`` raises before it executes something; changes nothing."""
        self.node()
        with self._session() as conn:
            self._require(conn, planned)

    def _session(self) -> AbstractContextManager[Connection]:
        """A session whose locks go when either side of it falls silent."""
        return session(
            self.dsn,
            name="londiste execute",
            autocommit=True,
            synchronous=True,
            idle_timeout_ms=IDLE_SECONDS * 1000,
            silent_seconds=self.answer_seconds,
        )

    def _require(self, conn: Connection, planned: Sequence[Planned]) -> None:
        self._check(conn, planned)
        if not (self.volatile or self.local):
            require_same_everywhere(conn, [one.part for one in self._left(conn, planned)])

    def _check(self, conn: Connection, planned: Sequence[Planned]) -> None:
        known = {script.name: script for script in state.get_scripts(conn, self.queue)}
        for one in planned:
            before = known.get(one.part.name)
            if before is not None and before.sql != one.part.text:
                raise StateError(
                    f"a different script {one.part.name} is recorded on this node,"
                    f" {before.state.value} since {before.started_at:%Y-%m-%d %H:%M}",
                    detail="a script runs once, identified by its name; the texts differ",
                    hint="rename the new script",
                )
            if before is None and not self.local:
                require_new_here(conn, self.queue, one.part.name, one.part.text)

    def _left(self, conn: Connection, planned: Sequence[Planned]) -> list[Planned]:
        over = {one.name for one in state.get_scripts(conn, self.queue) if one.state.over}
        return [one for one in planned if one.part.name not in over]

    def _together(self, conn: Connection, node: NodeInfo, group: Sequence[Planned]) -> None:
        """Runs parts in one transaction; retries while locks are not granted."""
        deadline = time.monotonic() + self.patience
        tries = 0
        while True:
            done: list[str] = []
            try:
                with conn.transaction():
                    done += [self._part(conn, node, one) for one in group]
                break
            except (LockTimeout, Deadlock) as error:
                self._wait(error, node, group[0].part.name, deadline, tries := tries + 1)
            except psycopg.Error as error:
                raise from_database(error, where=describe_dsn(self.dsn)) from error
        for line in done:
            self.report(line)

    def _part(self, conn: Connection, node: NodeInfo, one: Planned) -> str:
        try:
            done = run_part(
                conn,
                self.queue,
                one.part.name,
                one.part.text,
                one.attrs,
                node=node.name,
                root=not self.local,
                lock_timeout=self.lock_timeout,
            )
        except ScriptFailed as error:
            _hint_at_command(error, one.part.name, recorded=False)
            raise
        return self._line(node, one, done)

    def _line(self, node: NodeInfo, one: Planned, done: str) -> str:
        sent = "" if self.local else ", sent to all nodes"
        name = one.part.name
        if done == "already":
            return f"{node.name}: script {name} has run already, skipped"
        if done == "not here":
            return f"{node.name}: script {name} is not for this node{sent}"
        count = len(one.part.statements)
        return f"{node.name}: script {name}: {count} statement{'s' * (count > 1)} run{sent}"

    def _alone(self, conn: Connection, node: NodeInfo, one: Planned) -> None:
        name, text = one.part.name, one.part.text
        known = state.find(conn, self.queue, name)
        if known is not None and known.state.over:
            self.report(self._line(node, one, "already"))
            return
        if not wanted_here(conn, self.queue, name, one.attrs, node=node.name):
            with conn.transaction():
                self.report(self._part(conn, node, one))
            return
        if known is not None and known.state is State.FAILED:
            # Whoever gives the command again asks for it.
            state.decide_script(conn, self.queue, name, "retry")
        deadline = time.monotonic() + self.patience
        tries = 0
        while True:
            try:
                with self._session() as own:
                    run_alone(
                        own,
                        self.queue,
                        name,
                        text,
                        one.attrs,
                        node=node.name,
                        root=not self.local,
                        lock_timeout=self.lock_timeout,
                    )
                break
            except ScriptFailed as error:
                _hint_at_command(error, name, recorded=True)
                raise
            except (LockTimeout, Deadlock) as error:
                self._wait(error, node, name, deadline, tries := tries + 1)
        self.report(self._line(node, one, "run"))

    def _wait(
        self, error: LondisteError, node: NodeInfo, name: str, deadline: float, tries: int
    ) -> None:
        now = time.monotonic()
        if now >= deadline:
            held = lock_holders(self.sites, self.dsn)
            detail = f"tried {tries} times in {self.patience:g} s; its transaction was rolled back"
            raise LockTimeout(
                f"script {name}: no lock on node {node.name}: {error.message}",
                detail="; ".join([detail, *(f"locks are held by {one}" for one in held)]),
                hint=end_transactions(held, node.name)
                + "repeat the command; or use a longer --timeout",
            ) from error
        # Whoever stood in the queue behind our lock goes first.
        time.sleep(min(pause(tries, longest=2.0), deadline - now))

    def _tick(self, conn: Connection) -> None:
        """Starts a new batch for the parts that are sent next."""
        try:
            queues.force_tick(conn, self.queue)
            queues.ticker(conn, self.queue)
        except LondisteError as error:
            log.warning("no tick after the script: %s", error)


def _hint_at_command(error: ScriptFailed, name: str, *, recorded: bool) -> None:
    """Replaces the decisions about a worker's script: here no worker runs it, the command does.

    recorded -- the failure is in the database, with the text.
    """
    cause = error.hint.replace(choices(name), "").removesuffix("; ")
    if recorded:
        again = (
            "remove the cause, then repeat the command; or: londiste execute skip"
            f" {word(name)}, then run a script with another name"
        )
    else:
        again = (
            "correct the script or remove the cause, then repeat the command;"
            " the script was rolled back"
        )
    error.say_more("", "; ".join(filter(None, [cause, again])))


def _groups(planned: Sequence[Planned]) -> list[list[Planned]]:
    """Groups parts that run together: those of one transaction, others separately."""
    groups: list[list[Planned]] = []
    for one in planned:
        if (
            groups
            and one.part.way is StatementTiming.BATCH
            and groups[-1][0].part.way is StatementTiming.BATCH
        ):
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups
