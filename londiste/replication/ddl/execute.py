"""Runs one part of a script inside a transaction, on any node.

Forbidden changes are found by comparing the catalog before and after it, because the text cannot
show them (a DO block may do anything).
"""

from __future__ import annotations

import contextlib
import logging
import shlex
from collections.abc import Iterator, Mapping, Sequence

import psycopg

from londiste.db.connection import (
    TEXT_SETTINGS,
    Connection,
    describe_dsn,
    keep_role,
    use_own_names,
    use_script_role,
)
from londiste.db.names import TableName, argument
from londiste.db.queries import tuples
from londiste.errors import (
    BadOption,
    LondisteError,
    ScriptFailed,
    StateError,
    TransientError,
    from_database,
    server_hint,
)
from londiste.replication import sqlapi as tables
from londiste.replication.ddl import sqlapi as state
from londiste.replication.ddl.header import Attributes, Condition, fill
from londiste.replication.ddl.split import Statement, split
from londiste.replication.ddl.sqlapi import Script
from londiste.replication.tablesync import copied_rows

log = logging.getLogger(__name__)

#: What a script may change for itself, and not for what the session does behind it.
_SETTINGS = (
    *TEXT_SETTINGS,
    "lock_timeout",
    "statement_timeout",
    "idle_in_transaction_session_timeout",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "synchronous_commit",
    "check_function_bodies",
    "jit",
)


def run_part(
    conn: Connection,
    queue: str,
    name: str,
    text: str,
    attrs: str | None,
    *,
    node: str,
    root: bool,
    lock_timeout: float,
    event_id: int | None = None,
) -> str:
    """Runs a part, unless it has run, in the caller's transaction; returns the outcome.

    attrs -- its conditions, as they are sent.
    root -- this is the root, which sends it to all nodes.
    lock_timeout -- seconds that each statement may wait for its locks.

    'run', 'already' when it had run before, 'not here' when its conditions do not hold here.
    Raises ScriptFailed (roll back), and TransientError when a retry may succeed.
    """
    if not state.execute_start(conn, queue, name, text, attrs, root=root):
        return "already"
    done = "not here"
    if wanted_here(conn, queue, name, attrs, node=node, event_id=event_id):
        before = state.script_guard(conn)
        sequences = tuples(conn, "sequence_oids")
        statements = prepared(conn, queue, name, text, attrs, node=node, event_id=event_id)
        with _session(conn, lock_timeout):
            for statement in statements:
                run_statement(conn, statement, name, node=node, event_id=event_id)
        _check(conn, queue, name, before, node=node, event_id=event_id)
        _check_sequences(conn, name, sequences, node=node, event_id=event_id)
        done = "run"
    state.execute_finish(conn, queue, name)
    # Rows of the same batch follow, in the same transaction.
    keep_role(conn)
    return done


def wanted_here(
    conn: Connection,
    queue: str,
    name: str,
    attrs: str | None,
    *,
    node: str,
    event_id: int | None = None,
) -> bool:
    """Whether the conditions of a script hold on this node.  Raises ScriptFailed: in part."""
    with refusing(name, node, event_id, BadOption):
        return Attributes.decode(attrs).decide(
            lambda condition, value: state.script_has(conn, queue, condition, value), name
        )


def prepared(
    conn: Connection,
    queue: str,
    name: str,
    text: str,
    attrs: str | None,
    *,
    node: str,
    event_id: int | None = None,
) -> list[Statement]:
    """The statements as this node runs them, with this node's table names."""
    with refusing(name, node, event_id, BadOption):
        return split(fill(text, names_here(conn, queue, Attributes.decode(attrs))))


def names_here(conn: Connection, queue: str, attributes: Attributes) -> Mapping[str, TableName]:
    """The values of a script's placeholders on this node."""
    dests = {table.name: table.dest for table in tables.get_table_list(conn, queue) if table.local}
    found = {}
    for condition, values in attributes.pairs.items():
        if not condition.is_local:
            continue
        for value in values:
            table = TableName.parse(value)
            if condition is Condition.LOCAL_SEQUENCE:
                found[value] = table
            else:
                found[value] = dests.get(table, table)
    return found


def run_statement(
    conn: Connection,
    statement: Statement,
    name: str,
    *,
    node: str,
    event_id: int | None = None,
) -> None:
    """Runs one statement.  Raises ScriptFailed, or TransientError when a retry may succeed."""
    try:
        # In the form of the protocol that refuses two statements in one text.
        conn.execute(statement.text.encode(), prepare=False, binary=True)
    except psycopg.Error as error:
        ours = from_database(error, where=describe_dsn(conn.info.dsn))
        if isinstance(ours, TransientError):
            raise ours from error
        state_text = f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""
        raise ScriptFailed(
            f"script {name}: statement {statement.number} (line {statement.line}) failed on node"
            f" {node}: {error.diag.message_primary or ours.message}{state_text}",
            detail="; ".join(filter(None, [statement.shown, error.diag.message_detail])),
            hint="; ".join(filter(None, [server_hint(error), choices(name)])),
            event_id=event_id,
            statement=statement.number,
        ) from error
    log.info("script %s, statement %d: %s", name, statement.number, statement.shown)


def choices(name: str) -> str:
    """Hint for a failed script."""
    name = shlex.quote(name)
    return (
        f"remove the cause, then on that node: londiste execute retry {name}, or londiste execute"
        f" skip {name}, or, after doing its work by hand, londiste execute mark-done {name}"
    )


def still_failed(script: Script, event_id: int | None = None) -> ScriptFailed:
    """Error of a script that failed before and waits for the operator."""
    return ScriptFailed(
        script.error or f"script {script.name} has failed",
        detail="it is not retried automatically",
        hint=choices(script.name),
        event_id=event_id,
        statement=script.statement,
        known=True,
    )


def failed(
    name: str, node: str, message: str, detail: str, hint: str, event_id: int | None
) -> ScriptFailed:
    """Error of a script that cannot run."""
    return ScriptFailed(
        f"script {name} failed on node {node}: {message}",
        detail=detail,
        hint="; ".join(filter(None, [hint, choices(name)])),
        event_id=event_id,
    )


@contextlib.contextmanager
def refusing(
    name: str, node: str, event_id: int | None, *kinds: type[LondisteError]
) -> Iterator[None]:
    """Turns errors of these kinds into that of a script that cannot run."""
    try:
        yield
    except kinds as error:
        raise failed(name, node, error.message, error.detail, error.hint, event_id) from error


@contextlib.contextmanager
def _session(conn: Connection, lock_timeout: float) -> Iterator[None]:
    """Uses the caller's role and settings inside, and the session's again afterwards."""
    names = list(_SETTINGS)
    row = conn.execute(
        "select array_agg(coalesce(current_setting(n, true), '') order by i)"
        " from unnest(%s::text[]) with ordinality as s(n, i)",
        [names],
    ).fetchone()
    values: Sequence[str] = row[0] if row else ()
    use_script_role(conn)
    use_own_names(conn)
    conn.execute(
        "select pg_catalog.set_config('lock_timeout', %s, true)",
        [f"{max(1, round(lock_timeout * 1000))}ms"],
    )
    yield
    conn.execute("reset role")
    conn.execute(
        "select pg_catalog.set_config(n, v, false) from unnest(%s::text[], %s::text[]) as s(n, v)",
        [names, values],
    )


def _check(
    conn: Connection, queue: str, name: str, before: object, *, node: str, event_id: int | None
) -> None:
    """Checks a script's changes of replicated objects: refuses them, or adapts capture."""
    changes = state.script_changes(conn, before)
    for table, change in changes:
        if table is None:
            raise failed(
                name,
                node,
                "it changes the schemas of replication",
                "it changes tables of pgq, pgq_node or the schema londiste",
                "remove these statements; londiste install upgrades the schemas",
                event_id,
            )
        if change == "gone":
            raise failed(
                name,
                node,
                f"table {table}: a script cannot drop or rename a replicated table",
                "changes under another name would not be captured",
                f"remove it first, on the root: londiste remove-table {argument(table)}; add a"
                " renamed"
                " table again after the script",
                event_id,
            )
    for changed in state.refresh_captures(conn):
        log.info("table %s: capture recreated", changed)
    concerned = {table for table, _ in changes}
    for known in tables.get_table_list(conn, queue):
        if known.local and str(known.dest) in concerned and known.state not in (None, "ok"):
            with refusing(name, node, event_id, StateError):
                copied_rows.require_known(known)
            copy_again(conn, queue, known.name)


def _check_sequences(
    conn: Connection,
    name: str,
    before: Sequence[tuple[str, int]],
    *,
    node: str,
    event_id: int | None,
) -> None:
    """Refuses a script that renames replicated sequences.

    before -- names and oids of those that existed before the script.
    """
    names, oids = [one for one, _ in before], [oid for _, oid in before]
    for old, now in tuples(conn, "renamed_sequences", names=names, oids=oids):
        raise failed(
            name,
            node,
            f"sequence {old}: a script cannot rename a replicated sequence",
            f"it would be {now}, and its values would not be published under that name",
            f"remove it first, on the root: londiste remove-seq {argument(old)}; add the renamed"
            " sequence again after the script",
            event_id,
        )


def copy_again(conn: Connection, queue: str, name: TableName) -> None:
    """Copies a table again that changed during its copy.

    The copy may have read rows before the change, without values of new columns.  Inside a
    transaction.
    """
    for now in tables.get_table_list(conn, queue):
        if now.name == name:
            log.info("table %s was changed during its copy: copying again", name)
            state_now = "in-copy" if now.dropped_ddl else None
            tables.local_set_table_state(conn, queue, name, None, state_now)
