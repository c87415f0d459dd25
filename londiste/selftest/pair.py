"""The two databases of a self-test: what it creates in them, by a mark, and its removal.

The mark is the comment of a schema.  It is written before anything else is created, and names the
components of Londiste's SQL that the database did not have.  The schema is dropped last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands import create_node, install_sql
from londiste.cascade.commands.create_node import NewNode
from londiste.cascade.commands.endpoint import Endpoint, connections, endpoint, parameters
from londiste.cascade.model import NodeType
from londiste.cascade.switching.drop_node import DropNode
from londiste.cascade.switching.steps.notes import NodeAddress
from londiste.daemon.waiting import wait_until
from londiste.db.advisory_lock import acquire_singleton_lock, same_database
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.names import quote
from londiste.dsn import db_option
from londiste.error_values import server_text, shown
from londiste.errors import AccessDenied, BadOption, InstallError, NodeBusy, StateError
from londiste.install import apply, owners
from londiste.install import remove as remove_sql
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step, execute
from londiste.pgq import queues
from londiste.replication.commands import add_table
from londiste.replication.model import TableOptions
from londiste.selftest.shapes import SHAPES, Table
from londiste.settings import WorkerSettings

NAME = "londiste selftest"
SCHEMA = QUEUE = "londiste_selftest"
_MARK = "made by londiste selftest; SQL that it installed: "
_WORKER = "selftest_target_worker"
#: Seconds for the end of sessions of programs that were killed.
_PATIENCE = 30.0

#: What every transaction of the application writes.  The ledger has no key: a row that is applied
#: twice stays visible.
BASE = f"""
create table {SCHEMA}.ledger (n bigint not null, txid bigint not null);
create index ledger_n on {SCHEMA}.ledger (n);
create table {SCHEMA}.token (n bigint primary key, v text not null);
create table {SCHEMA}.account (id int primary key, balance bigint not null);
insert into {SCHEMA}.account select i, 100 from generate_series(1, 8) i;
create table {SCHEMA}.burst (id bigint primary key, v text);
"""
LEDGER, TOKEN, ACCOUNT, BURST = (
    f"{SCHEMA}.{name}" for name in ("ledger", "token", "account", "burst")
)
ALL_SHAPES = tuple(Table(number, shape, SCHEMA) for number, shape in enumerate(SHAPES.values()))

#: Sessions of the programs of this queue, and of no other.
SESSIONS = (
    " from pg_catalog.pg_stat_activity where datname = pg_catalog.current_database()"
    f" and (application_name like 'londiste worker {_WORKER}%'"
    f" or application_name like 'londiste copy {SCHEMA}.%')"
)


@dataclass(frozen=True)
class Pair:
    """The source, which becomes the root of a queue, and the target, which becomes a leaf."""

    settings: WorkerSettings
    source: Endpoint
    target: Endpoint

    @property
    def both(self) -> tuple[Endpoint, Endpoint]:
        return self.source, self.target

    def sites(self) -> Connections:
        """Connections for the test's own statements."""
        return connections(NAME, self.settings, self.both)


def identify(settings: WorkerSettings, source: str, target: str) -> Pair:
    """Connects to both databases.  Raises BadOption if they are one, NodeUnreachable."""
    parameters(source), parameters(target)
    with (
        session(source, name=NAME, autocommit=True) as one,
        session(target, name=NAME, autocommit=True) as other,
    ):
        if same_database(one, other):
            raise BadOption(
                f"source and target are the same database: {describe_dsn(source)}",
                hint="give the connection strings of two databases",
            )
        return Pair(
            settings,
            _endpoint("selftest_source", source, one.info.dbname),
            _endpoint("selftest_target", target, other.info.dbname),
        )


def _endpoint(name: str, dsn: str, dbname: str) -> Endpoint:
    given = parameters(dsn)
    more = {} if given.get("dbname") or given.get("service") else {"dbname": dbname}
    return endpoint(name, dsn, f"{name}_worker", **more)


def mark_of(conn: Connection) -> tuple[str, ...] | None:
    """The components that the test has installed here; None if it has created nothing.

    Raises StateError if the schema was created by something else, or a role that this one does not
    trust could have written the mark.
    """
    row = conn.execute(
        "select pg_catalog.obj_description(oid, 'pg_namespace') from pg_catalog.pg_namespace"
        " where nspname = %s",
        [SCHEMA],
    ).fetchone()
    if row is None:
        return None
    if not str(row[0] or "").startswith(_MARK):
        raise StateError(
            f"{conn.info.dbname}: schema {SCHEMA} was not created by londiste selftest",
            detail="nothing was changed",
            hint=f"rename it: alter schema {SCHEMA} rename to {SCHEMA}_old",
        )
    for doubt in owners.find(conn, [SCHEMA], installing=True):
        raise StateError(
            f"{conn.info.dbname}: {doubt.message}",
            detail="that role may have written the mark of londiste selftest; nothing was changed",
            hint=doubt.hint,
        )
    return tuple(str(row[0]).removeprefix(_MARK).split())


def be_alone(sites: Connections, pair: Pair) -> None:
    """Locks both databases for this test.  Raises NodeBusy."""
    for side in pair.both:
        other = acquire_singleton_lock(sites.at(side.dsn), NAME)
        if other is not None:
            raise NodeBusy(
                f"{describe_dsn(side.dsn)}: another self-test is running",
                detail=other,
                hint="wait until it has ended, or stop it with Ctrl-C",
            )


def mark(sites: Connections, pair: Pair) -> None:
    """Creates the marked schema in both databases.

    Raises AccessDenied, InstallError for SQL of another version, StateError for a queue that has
    the name.  Nothing is changed then.
    """
    absent = {side.dsn: _absent(sites.at(side.dsn), side.dsn) for side in pair.both}
    for side in pair.both:
        with sites.transaction(side.dsn) as conn:
            conn.execute(f"create schema {SCHEMA}".encode())
            text = _MARK + " ".join(absent[side.dsn])
            conn.execute(
                sql.SQL("comment on schema {} is {}").format(
                    sql.Identifier(SCHEMA), sql.Literal(text)
                )
            )


def _absent(conn: Connection, dsn: str) -> list[str]:
    """The components of the SQL that a database does not have; checks what else is needed."""
    row = conn.execute(
        "select pg_catalog.has_database_privilege(pg_catalog.current_database(), 'create')"
    ).fetchone()
    if row is None or not row[0]:
        raise AccessDenied(
            f"{conn.info.user} may not create schemas in {describe_dsn(dsn)}",
            hint="as an administrator: grant create on database"
            f" {quote(conn.info.dbname)} to {quote(conn.info.user)}",
        )
    plans = apply.plan_for(conn)
    old = [one.component for one in plans if one.installed is not None and one.steps]
    if old:
        raise InstallError(
            f"{describe_dsn(dsn)}: the SQL of {', '.join(old)} is of another version",
            detail="the self-test upgrades no SQL that it did not install",
            hint=f"upgrade it: londiste install {db_option(dsn)}",
        )
    if install_sql.installed(conn) and queues.get_queue_info(conn, QUEUE):
        raise StateError(
            f"{describe_dsn(dsn)}: queue {QUEUE} exists, and was not created by londiste selftest",
            hint=f"drop it: londiste queue drop {QUEUE}",
        )
    return [one.component for one in plans if one.installed is None]


def create_tables(sites: Connections, pair: Pair, tables: Sequence[Table]) -> None:
    """Creates the tables in the source; the target gets them by ``add-table``."""
    with sites.transaction(pair.source.dsn) as conn:
        conn.execute(BASE)
        for table in tables:
            conn.execute(table.ddl(subscriber=False).encode())


def names(tables: Sequence[Table]) -> list[str]:
    """The names of all tables, as commands take them."""
    return [LEDGER, TOKEN, ACCOUNT, BURST, *(table.name for table in tables)]


def keyed(tables: Sequence[Table]) -> list[str]:
    """The names of the tables with a key."""
    return [TOKEN, ACCOUNT, BURST, *(t.name for t in tables if not t.shape.keyless)]


def create_nodes(
    sites: Connections, pair: Pair, tables: Sequence[Table], report: Callable[[Step], None]
) -> None:
    """Installs the SQL where it is missing, creates both nodes, adds the tables to the root."""
    source, target = pair.both
    execute([install_sql.Install(side, _MARK) for side in pair.both], sites, report)
    new = NewNode(QUEUE, NodeType.ROOT, source.name, source.dsn, source.location, source.worker)
    execute(create_node.create_root(sites, new), sites, report)
    new = NewNode(QUEUE, NodeType.LEAF, target.name, target.dsn, target.location, target.worker)
    execute(create_node.create_leaf(sites, new, source.dsn), sites, report)
    every = names(tables)
    with_key = keyed(tables)
    without = [name for name in every if name not in with_key]
    for some, options in (
        (with_key, TableOptions()),
        (without, TableOptions(whole_row=True)),
    ):
        execute(add_table.plan(sites, source.dsn, QUEUE, some, options).steps, sites, report)


def remove(sites: Connections, pair: Pair, warn: Callable[[str], None]) -> bool:
    """Removes everything that a test has created; whether there was something.

    warn -- called for what stays, and why.  Raises StateError for objects of others that depend on
    tables of the test, or are in its schema.
    """
    marks = {side: mark_of(sites.at(side.dsn)) for side in pair.both}
    marked = {side: found for side, found in marks.items() if found is not None}
    if not marked:
        return False
    execute(_drop_nodes(sites, pair, list(marked)), sites)
    _await_end(sites, pair)
    for side, installed in marked.items():
        _drop_tables(sites, side)
        _uninstall(sites.at(side.dsn), installed, warn)
        with sites.transaction(side.dsn) as conn:
            _drop(conn, [f"drop schema {SCHEMA}"], side)
    return True


def _drop_nodes(sites: Connections, pair: Pair, marked: Sequence[Endpoint]) -> list[Step]:
    steps: list[Step] = []
    source, target = (NodeAddress(side.name, side.dsn) for side in pair.both)
    if pair.target in marked and _is_node(sites.at(target.dsn)):
        steps.append(DropNode(target, QUEUE, target.name))
    if pair.source in marked and _is_node(sites.at(source.dsn)):
        steps.append(DropNode(source, QUEUE, target.name, None, pair.target.worker))
        steps.append(DropNode(source, QUEUE, source.name))
    return steps


def _is_node(conn: Connection) -> bool:
    return install_sql.has_nodes(conn) and nodes.find_node_info(conn, QUEUE) is not None


def _await_end(sites: Connections, pair: Pair) -> None:
    """Waits for the end of sessions of programs that have lost their node; ends those that stay."""
    deadline = time.monotonic() + _PATIENCE
    for side in pair.both:
        conn = sites.at(side.dsn)

        def ended(conn: Connection = conn) -> bool:
            return conn.execute(f"select 1{SESSIONS}".encode()).fetchone() is None

        if not wait_until(ended, deadline - time.monotonic()):
            conn.execute(f"select pg_catalog.pg_terminate_backend(pid){SESSIONS}".encode())


def _drop_tables(sites: Connections, side: Endpoint) -> None:
    every = [LEDGER, TOKEN, ACCOUNT, BURST, *(table.sql for table in ALL_SHAPES)]
    types = [
        f"{table.sql}_{part}"
        for table in ALL_SHAPES
        for part in ("mood", "pair")
        if table.shape.name == "custom"
    ]
    domains = [f"{t.sql}_small" for t in ALL_SHAPES if t.shape.name == "custom"]
    with sites.transaction(side.dsn) as conn:
        conn.execute("set local client_min_messages = warning")
        statements = [
            f"drop table if exists {', '.join(every)}",
            f"drop domain if exists {', '.join(domains)}",
            f"drop type if exists {', '.join(types)}",
        ]
        _drop(conn, statements, side)


def _drop(conn: Connection, statements: Sequence[str], side: Endpoint) -> None:
    try:
        for statement in statements:
            conn.execute(statement.encode())
    except psycopg.errors.DependentObjectsStillExist as error:
        raise StateError(
            f"{describe_dsn(side.dsn)}: {server_text(error)}",
            detail=shown(error).detail.replace("\n", "; "),
            hint="drop these objects, which the self-test did not create; then repeat:"
            " londiste selftest --clean SOURCE TARGET",
        ) from error


def _uninstall(conn: Connection, installed: Sequence[str], warn: Callable[[str], None]) -> None:
    if not installed:
        return
    try:
        used = remove_sql.blockers(
            conn, remove_sql.plan(conn, installed), dropped=(QUEUE,), queues=True
        )
        if not used:
            remove_sql.uninstall(conn, installed)
    except (InstallError, StateError) as error:
        used = [error.message]
    if used:
        warn(f"{conn.info.dbname}: the installed SQL stays, it is in use: {'; '.join(used)}")


def left(conn: Connection) -> list[str]:
    """What a test has left in a database: nothing, as it should be."""
    found = [str(name) for (name,) in conn.execute(_LEFT.encode()).fetchall()]
    if install_sql.installed(conn) and queues.get_queue_info(conn, QUEUE):
        found.append(f"queue {QUEUE}")
    return found


_LEFT = f"""
select 'schema ' || nspname from pg_catalog.pg_namespace where nspname = '{SCHEMA}'
union all
select 'session ' || application_name{SESSIONS}
"""
