"""The databases of ``londiste replicate``: which nodes they are or become, and their settings."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import psycopg
from pydantic import Field, field_validator

from londiste.cascade import copied_database
from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands import install_sql
from londiste.cascade.commands.endpoint import (
    Endpoint,
    connections,
    endpoint,
    parameters,
    worker_settings,
)
from londiste.cascade.model import Member, NodeInfo, NodeType
from londiste.db.advisory_lock import same_database
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.connstr.locations import LocationRefused, reach
from londiste.db.queries import tuples
from londiste.dsn import PLACE, without_secrets
from londiste.errors import AccessDenied, BadOption, LondisteError, StateError
from londiste.orchestration.connections import Connections, side_by_side
from londiste.pgq import queues
from londiste.settings import WorkerSettings

NAME = "londiste replicate"
_NAME_LENGTH = 40
#: Each queue is a worker for each node.
MAX_QUEUES = 32


class ReplicateSettings(WorkerSettings):
    """Settings of ``londiste replicate`` and of its workers."""

    sections: ClassVar[tuple[str, ...]] = ("replicate", "londiste")

    db: str = Field("", description="Not used: the command names the databases.")
    queue_name: str = Field(
        "", description="Name of the queue (default: from the name of the source database)."
    )
    queues: int = Field(
        1,
        ge=1,
        le=MAX_QUEUES,
        description=f"Number of queues that share the tables, 1 to {MAX_QUEUES}. Each has workers"
        " of its own. Existing ones are kept.",
    )
    # Nothing but this package is needed for it.
    engine: Literal["spark", "local"] = Field(
        "local",
        description="Engine for copies, compare and large batches: spark or local.",
    )

    @field_validator("queue_name")
    @classmethod
    def _some_name(cls, value: str) -> str:
        return value.strip()


@dataclass(frozen=True)
class Replication:
    """A source and its targets; the endpoints have the names of the nodes.

    root_worker -- the source's user may run a worker there, which publishes values of sequences.
    first -- the queue that names the replication; '' if it is this one.
    """

    settings: ReplicateSettings
    queue: str
    source: Endpoint
    targets: tuple[Endpoint, ...]
    root_worker: bool = True
    first: str = ""

    @property
    def all(self) -> tuple[Endpoint, ...]:
        """The source, then the targets."""
        return (self.source, *self.targets)

    @property
    def workers(self) -> tuple[Endpoint, ...]:
        """The nodes whose workers have to run."""
        return self.all if self.root_worker else self.targets

    @property
    def mark(self) -> str:
        """The mark of schemas that this command installs."""
        return f"made by londiste replicate: {self.first or self.queue}"

    def sites(self) -> Connections:
        """Connections for a command, which reach all by the given connection strings."""
        return connections(NAME, self.settings, self.all)

    def worker_settings(self, of: Endpoint) -> WorkerSettings:
        """The settings of a node's worker, and of compare."""
        return worker_settings(self.settings, self.queue, of, self.source, logfile=None)


def clean(name: str) -> str:
    """Pure: a database's name as a part of names of queues, nodes and consumers."""
    words = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower()
    return words[:_NAME_LENGTH].rstrip("_") or "db"


def free_name(wanted: str, taken: Collection[str]) -> str:
    """Pure: the name, with a number if it is taken."""
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name


def worker_name(node: str, number: int = 1) -> str:
    """Pure: the worker of a node in a queue of the replication.

    number -- of the queue; by it a further queue is known to be one of this command.
    """
    return f"replicate_{node}" + (f"_queue_{number}" if number > 1 else "")


def identify(
    settings: ReplicateSettings,
    source: str,
    targets: Sequence[str],
    *,
    first: str = "",
    number: int = 1,
) -> Replication:
    """Asks all databases for their names, and for the nodes that they are already.

    first, number -- for a further queue: the first one, and which one it is.

    Raises BadOption (one database twice), StateError (one has another place in the cascade),
    NodeUnreachable.
    """
    dsns = [source, *targets]
    for dsn in dsns:
        parameters(dsn)
    with Connections(
        name=NAME,
        lock_timeout=settings.lock_timeout,
        answer_seconds=settings.answer_seconds,
    ) as sites:
        _require_different(sites, dsns)
        conn = sites.at(source)
        queue = settings.queue_name or clean(conn.info.dbname)
        root = _source(conn, source, queue)
        _refuse_copy(conn, root)
        members = nodes.get_queue_locations(conn, queue) if root is not None else []
        provider = (
            _endpoint(conn, source, root.name, root.worker)
            if root is not None
            else _new_endpoint(conn, source, clean(conn.info.dbname), number)
        )
        found = [provider]
        for dsn in targets:
            found.append(_target(sites.at(dsn), dsn, queue, number, found, members))
    return Replication(settings, queue, provider, tuple(found[1:]), _may_work(source), first)


def unreachable(settings: ReplicateSettings, dsns: Sequence[str]) -> dict[str, LondisteError]:
    """The databases that do not answer or refuse the connection, each with its error."""

    def silence(dsn: str) -> LondisteError | None:
        try:
            with session(dsn, name=NAME, answer_seconds=settings.answer_seconds):
                return None
        except LondisteError as error:
            return error

    for dsn in dsns:
        parameters(dsn)
    answers = zip(dsns, side_by_side(silence, dsns), strict=True)
    return {dsn: error for dsn, error in answers if error is not None}


def _may_work(dsn: str) -> bool:
    """Whether a worker can run in a database."""
    try:
        with session(dsn, name=NAME, autocommit=True, replica=True):
            return True
    except AccessDenied:
        return False


def _endpoint(conn: Connection, dsn: str, name: str, worker: str) -> Endpoint:
    given = parameters(dsn)
    more = {} if given.get("dbname") or given.get("service") else {"dbname": conn.info.dbname}
    return endpoint(name, dsn, worker, **more)


def _new_endpoint(conn: Connection, dsn: str, name: str, number: int) -> Endpoint:
    return _endpoint(conn, dsn, name, worker_name(name, number))


def node_of(conn: Connection, queue: str) -> NodeInfo | None:
    """The node that a database is; None where it is none, or where the SQL is not installed."""
    return nodes.find_node_info(conn, queue) if install_sql.has_nodes(conn) else None


def _source(conn: Connection, dsn: str, queue: str) -> NodeInfo | None:
    found = node_of(conn, queue)
    if found is not None and found.type is NodeType.LEAF:
        raise StateError(
            f"{describe_dsn(dsn)} is leaf {found.name} of queue {queue}, and no other node reads"
            " from a leaf",
            hint="replicate its tables in another queue: --queue NAME",
        )
    if found is None and install_sql.installed(conn) and queues.get_queue_info(conn, queue):
        raise StateError(
            f"{describe_dsn(dsn)}: queue {queue} exists already, without replication",
            detail="its consumers would receive the changes of the tables",
            hint="choose another name: --queue NAME",
        )
    return found


def _target(
    conn: Connection,
    dsn: str,
    queue: str,
    number: int,
    others: Sequence[Endpoint],
    members: Sequence[Member],
) -> Endpoint:
    """others -- the source, and the targets before this one."""
    found = node_of(conn, queue)
    source = others[0]
    if found is None:
        plain = _endpoint(conn, dsn, "", "")
        # An interrupted command may have registered it.
        mine = next((m.name for m in members if m.location == plain.location), None)
        taken = {one.name for one in others} | {m.name for m in members}
        name = mine or free_name(clean(conn.info.dbname), taken)
        return _new_endpoint(conn, dsn, name, number)
    if found.type is NodeType.ROOT or not reads_from(found, source):
        raise StateError(
            f"{describe_dsn(dsn)} is node {found.name} of queue {queue} already, and does not read"
            f" from {describe_dsn(source.dsn)}",
            hint=_instead(found, source, dsn, queue),
        )
    _refuse_copy(conn, found)
    return _endpoint(conn, dsn, found.name, found.worker)


def _refuse_copy(conn: Connection, node: NodeInfo | None) -> None:
    """Raises StateError when the node of a database is the copy of another database's."""
    if node is not None:
        copied_database.refuse(conn, node.queue, lambda location: reach(location, ""))


def _instead(found: NodeInfo, source: Endpoint, dsn: str, queue: str) -> str:
    """Pure: what to do about a target that is another node of the queue, or has another provider.

    A provider of the same name as the source is probably the source at an address of before.
    """
    other = "choose another name for the queue: --queue NAME"
    if found.type is NodeType.ROOT:
        return other
    if found.provider == source.name:
        move = moving(source, queue, found.provider)
        return f"if node {found.provider} has another address now: {move}; or {other}"
    words = ["londiste", "replicate", found.provider_location, without_secrets(dsn)]
    return f"{shlex.join([*words, '--queue', queue])}; or, for another replication, {other}"


def moving(source: Endpoint, queue: str, node: str) -> str:
    """Pure: the command that stores another location of a node; it needs no file of settings."""
    settings = [f"--set=db={source.location}", f"--set=queue_name={queue}"]
    location = source.location if node == source.name else "CONNECTION"
    return shlex.join(["londiste", *settings, "move-node", node, location])


@contextlib.contextmanager
def without_settings(source: Endpoint, queue: str) -> Iterator[None]:
    """Lets the error about a stored location of a queue name a command that runs here."""
    try:
        yield
    except LocationRefused as error:
        if error.node:
            error.say_more("", f"store another one: {moving(source, queue, error.node)}")
        raise


def connecting_queues(sites: Connections, replications: Sequence[Replication]) -> list[str]:
    """The other queues through which a target reads from the source."""
    source = replications[0].source
    root = sites.at(source.dsn)
    if not install_sql.has_nodes(root):
        return []
    of_root = {str(queue) for (queue,) in tuples(root, "queues_of_nodes")}
    of_root -= {one.queue for one in replications}
    found: set[str] = set()
    for target in replications[0].targets:
        for queue in of_root - found:
            node = node_of(sites.at(target.dsn), queue)
            if node is not None and node.type is not NodeType.ROOT and reads_from(node, source):
                found.add(queue)
    return sorted(found)


def reads_from(node: NodeInfo, source: Endpoint) -> bool:
    """Whether the provider of a node is the source."""
    if node.provider_location == source.location:
        return True
    try:
        with (
            session(source.dsn, name=NAME, autocommit=True) as one,
            session(
                reach(node.provider_location, "", node=node.provider), name=NAME, autocommit=True
            ) as other,
        ):
            return same_database(one, other)
    except (LondisteError, psycopg.Error):
        return False


def _require_different(sites: Connections, dsns: Sequence[str]) -> None:
    for number, dsn in enumerate(dsns):
        for other in dsns[:number]:
            if dsn != other and not same_database(sites.at(dsn), sites.at(other)):
                continue
            raise BadOption(
                f"the source and the targets must be different databases: {describe_dsn(dsn)} is"
                " given twice",
                hint="give the connection strings of different databases",
            )


def state_file(settings: ReplicateSettings, source: str, target: str, suffix: str) -> Path:
    """Where the process in the background keeps its log or process id.

    The name follows from the source and the first target, so that the command finds it again.
    """
    given = settings.pidfile if suffix == "pid" else settings.logfile
    if given is not None:
        return given
    places = [{key: parameters(dsn).get(key, "") for key in PLACE} for dsn in (source, target)]
    # A saved file may name the default.
    queue = settings.queue_name
    queue = "" if queue == clean(places[0]["dbname"]) else queue
    digest = hashlib.sha256(repr((queue, places)).encode()).hexdigest()[:12]
    name = clean(places[1]["dbname"] or places[1]["service"])
    return state_directory() / f"replicate-{name}-{digest}.{suffix}"


def require_state(*files: Path) -> None:
    """Makes the directories of the process in the background.  Raises BadOption."""
    for directory in {file.parent for file in files}:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(directory, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise BadOption(
                f"--detach: directory {directory} cannot be written: {error.strerror}",
                detail="it gets the log and the process id; nothing was changed",
                hint="set XDG_STATE_HOME to a directory that you may write"
                if directory == state_directory()
                else "correct the settings pidfile and logfile",
            ) from None


def state_directory() -> Path:
    """The directory of the user's state, as the XDG specification has it."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "londiste"
