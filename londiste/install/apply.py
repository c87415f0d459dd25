"""Installer: runs a plan, one transaction per component, under one advisory lock."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import psycopg

from londiste.db.connection import Connection, whereabouts
from londiste.db.queries import name_holder
from londiste.db.server_text import AdvisoryKey
from londiste.db.sessions import schema_guard
from londiste.errors import InstallError, LockTimeout, LondisteError, from_database
from londiste.install import default_rights, group_roles, ledger, locks, owners, source
from londiste.install.plan import Action, InstallPlan, PlanStep, plan
from londiste.install.source import Component

log = logging.getLogger(__name__)

#: Key of the advisory lock that installers of one database take one after another.
INSTALL_LOCK = 0x6C6F6E_64697374  # "londist"

#: How long an installer waits for another one, first without a message, and for a table that it
#: has not locked before.
SILENT_WAIT = "3s"
WAIT_FOR_INSTALLER = "120s"
WAIT_FOR_TABLE = "1s"

#: Roles belong to the whole server: two databases installed at once can collide on them.
_ROLE_COLLISIONS = ("40001", "XX000", "23505", "42710")
_TRIES = 5
_SCHEMA = "schema.sql"
_GRANTS = "grants.sql"
DEADLOCK = "40P01"
NOT_LOCKED = "55P03"


def install(
    conn: Connection,
    components: Sequence[str] | None = None,
    *,
    after: bool = False,
    root: Path | None = None,
) -> list[PlanStep]:
    """Installs or upgrades the components (default: all) and what they require.

    conn -- outside of a transaction; inside of one all components are part of it.
    after -- also run the upgrades that break programs of the previous release.
    root -- another folder of SQL than the program's own.

    Returns the steps that ran, none if everything was installed.  A component is installed
    completely or not at all; those before a failing one stay.  Raises InstallError, and NotTrusted.
    """
    # What can be refused at all is refused before the first change.
    plans = plan_for(conn, components, after=after, root=root)
    schemas = [step for one in plans for step in one.steps if step.path == _SCHEMA]
    group_roles.require(conn, [one.text for one in schemas if one.action is Action.RUN])
    ran: list[PlanStep] = []
    for component in source.select(source.load(root), components):
        ran += _install(conn, component, after)
    return ran


def plan_for(
    conn: Connection,
    components: Sequence[str] | None = None,
    *,
    after: bool = False,
    root: Path | None = None,
) -> list[InstallPlan]:
    """The plan of ``install`` per component; changes nothing and takes no lock."""
    chosen = source.select(source.load(root), components)
    with conn.transaction():
        found = ledger.read_all(conn, [one.name for one in chosen])
        plans = [plan(one, found[one.name], after=after) for one in chosen]
        require_owners(conn, chosen, installing=any(one.steps for one in plans))
        return plans


def require_owners(
    conn: Connection, components: Sequence[Component], *, installing: bool = True
) -> None:
    """Raises NotTrusted if a schema of these components is open to a role that is not trusted.

    installing -- a file is to run; otherwise as a daemon trusts.
    """
    names = [component.name for component in components]
    owners.require(conn, owners.of_components(names), installing=installing)


def _install(conn: Connection, component: Component, after: bool) -> tuple[PlanStep, ...]:
    for attempt in range(1, _TRIES + 1):
        try:
            with conn.transaction():
                lock(conn)
                steps = plan(component, ledger.read(conn, component.name), after=after).steps
                require_owners(conn, [component], installing=bool(steps))
                run(conn, component, steps, lock_all=attempt > 1)
                if steps:
                    # What an upgrade has just dropped leaves the ledger as well.
                    rest = plan(component, ledger.read(conn, component.name), after=after).steps
                    run(conn, component, rest)
                    steps += rest
        except _FileFailed as failed:
            if attempt < _TRIES and failed.collided:
                log.debug("retrying the installation of %s: %s", component.name, failed.error)
                continue
            raise _explain(failed) from failed.error
        except psycopg.Error as error:
            raise from_database(error, where=conn.info.dbname) from error
        return steps
    raise AssertionError("the last try returns or raises")


def lock(conn: Connection) -> None:
    """Waits for other installers of this database; the lock lasts until the transaction ends.

    Warns after a moment, naming the session that holds the lock: every role can take it.
    Raises LockTimeout.
    """
    try:
        _wait_for_lock(conn, SILENT_WAIT)
    except LockTimeout as error:
        log.warning("waiting for another installer: %s; hint: %s", error.detail, error.hint)
        _wait_for_lock(conn, WAIT_FOR_INSTALLER)
    conn.execute(f"set local lock_timeout = '{WAIT_FOR_TABLE}'")


def _wait_for_lock(conn: Connection, limit: str) -> None:
    """Takes the lock within this time.  Raises LockTimeout, which names the session."""
    try:
        with conn.transaction():
            conn.execute(f"set local lock_timeout = '{limit}'")
            conn.execute("select pg_catalog.pg_advisory_xact_lock(%s)", [INSTALL_LOCK])
    except psycopg.errors.LockNotAvailable as error:
        known = LockTimeout(
            f"{whereabouts(conn)}: another session holds the lock of installers",
            hint="repeat the command",
        )
        name_holder(known, conn, AdvisoryKey(key=INSTALL_LOCK))
        raise known from error


def run(
    conn: Connection, component: Component, steps: Sequence[PlanStep], *, lock_all: bool = False
) -> None:
    """Runs and records the steps of one component, in the caller's transaction.

    lock_all -- locks its tables first, also when no upgrade is among the steps.
    """
    if not steps:
        return
    with schema_guard.unguarded(conn):
        _run(conn, component, steps, lock_all)


def _run(conn: Connection, component: Component, steps: Sequence[PlanStep], lock_all: bool) -> None:
    # Function files may name each other in any order.
    conn.execute("set local check_function_bodies = off")
    conn.execute("set local client_min_messages = warning")
    conn.execute("set local search_path = pg_catalog, pg_temp")
    upgrades = any(s.action is Action.RUN and s.path.startswith("upgrades/") for s in steps)
    if upgrades or lock_all:
        locks.take(conn, [component.name])
    schemas = owners.of_components([component.name])
    default_rights.note(conn, schemas)
    for step in steps:
        if step.action is Action.RUN:
            if step.path == _GRANTS:
                default_rights.revoke(conn, schemas)
            try:
                # No parameters: psycopg sends the text as it is, many statements in one query.
                conn.execute(step.text.encode())
            except psycopg.Error as error:
                raise _FileFailed(step, error) from error
            if step.path == _SCHEMA:
                default_rights.revoke(conn, schemas)
                # It existed already if another role has made it since the first look.
                require_owners(conn, [component])
    ledger.create(conn, component.name)
    ledger.forget(conn, component.name, [s.path for s in steps if s.action is Action.FORGET])
    ledger.remember(
        conn, component.name, {s.path: s.entry for s in steps if s.action is not Action.FORGET}
    )


class _FileFailed(Exception):
    """The error for a file that the server rejected."""

    def __init__(self, step: PlanStep, error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.step = step
        self.error = error

    @property
    def collided(self) -> bool:
        if self.error.sqlstate in (DEADLOCK, NOT_LOCKED):
            # Those who go on working use a table that is locked by no upgrade file.
            return True
        return self.step.path == _SCHEMA and self.error.sqlstate in _ROLE_COLLISIONS


def _explain(failed: _FileFailed) -> LondisteError:
    error, step = failed.error, failed.step
    known = from_database(error)
    if known.retry:
        return known
    diag = error.diag
    line = ""
    if diag.statement_position:
        line = f", line {step.text.count(chr(10), 0, int(diag.statement_position)) + 1}"
    return InstallError(
        f"{step.component}/{step.path}{line}: {known.message}",
        detail=f"nothing of {step.component} was changed"
        + (f"; {known.detail}" if known.detail else ""),
        hint=known.hint or "correct the cause, then: londiste install",
    )
