"""Runs one part of a script inside a transaction, on any node.

Forbidden changes are found by comparing the catalog before and after it, because the text cannot
show them (a DO block may do anything).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence

import psycopg
from psycopg import sql

from londiste.db.connection import Connection, describe_dsn, keep_role, use_own_names
from londiste.db.names import TableName, argument
from londiste.db.queries import savepoint, tuples
from londiste.db.session_role import use_script_role
from londiste.db.sessions.settings import TEXT_SETTINGS
from londiste.error_values import Values
from londiste.error_values import shown as as_shown
from londiste.errors import (
    BadOption,
    Deadlock,
    LockTimeout,
    ScriptFailed,
    StateError,
    TransientError,
    from_database,
)
from londiste.replication import sqlapi as tables
from londiste.replication.ddl import captures, rows
from londiste.replication.ddl import sqlapi as state
from londiste.replication.ddl.agreement import (
    came_before,
    check_here_only,
    check_rows,
    check_rules,
    names_here,
    require_one_queue,
    ruled_columns,
)
from londiste.replication.ddl.failures import choices, failed, refusing
from londiste.replication.ddl.header import Attributes, fill
from londiste.replication.ddl.split import Statement, split
from londiste.replication.ddl.writers import WriterLock
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
    sent: str | None = None,
    again: bool = False,
) -> str:
    """Runs a part, unless it has run, in the caller's transaction; returns the outcome.

    attrs -- its conditions, as they are sent.
    root -- this is the root, which sends it to all nodes.
    lock_timeout -- seconds that each statement may wait for its locks.
    event_id -- its event; None below the root: it runs on this node only.
    sent -- the rows that it has written on the root, as ``rows`` encodes them; None: unknown.
    again -- an operator wants it to run, whatever this node has recorded of it.

    'run', 'already' when it had run before, 'not here' when its conditions do not hold here.
    Raises ScriptFailed (roll back), and TransientError when a retry may succeed.
    """
    others = not (root or again) and came_before(
        conn, queue, name, text, attrs, node=node, event_id=event_id, sent=sent
    )
    if again:
        state.forget_script(conn, queue, name)
    if not state.execute_start(conn, queue, name, text, attrs, root=root, others=others):
        return "already"
    done = "not here"
    unfit = captures.unfit(conn) if root else ()
    touched = rows.untouched(conn, queue, root=root)
    changed: set[str] = set()
    if wanted_here(conn, queue, name, attrs, node=node, event_id=event_id):
        before = state.script_guard(conn)
        ours = tuples(conn, "own_schemas")
        sequences = tuples(conn, "sequence_oids")
        columns = {} if root else ruled_columns(conn, queue)
        statements = prepared(conn, queue, name, text, attrs, node=node, event_id=event_id)
        if not rows.counts(conn):
            raise failed(
                name,
                node,
                "track_counts is off",
                "Londiste compares the rows that a script writes on each node",
                "as a superuser: alter system set track_counts = on; select pg_reload_conf()",
                event_id,
            )
        # What the rows before the script have deferred is no work of the script.
        run_deferred(conn)
        writers = WriterLock.of(conn, queue, text, statements) if root else None
        found = None
        while found is None:
            found = _attempt(
                conn,
                queue,
                name,
                statements,
                ours,
                writers,
                node=node,
                lock_timeout=lock_timeout,
                event_id=event_id,
            )
        touched = found
        changed = _check(conn, queue, name, before, node=node, event_id=event_id)
        left = captures.refresh(conn)
        broken = captures.newly_unfit(left, unfit) if root else []
        if broken:
            raise failed(
                name,
                node,
                "; ".join(map(str, broken)),
                "each write into the table would fail",
                "create the capture in the script, after the change, with the argument corrected: "
                + "; ".join(one.in_script for one in broken),
                event_id,
            )
        captures.warn(left)
        _check_sequences(conn, name, sequences, node=node, event_id=event_id)
        if not root:
            check_rules(conn, queue, name, columns, node=node, event_id=event_id)
        done = "run"
    if root:
        require_one_queue(queue, name, node, touched)
    elif event_id is None:
        check_here_only(name, node, touched)
    else:
        check_rows(conn, queue, name, touched, sent, node=node, event_id=event_id)
    if not root:
        _copy_changed(conn, queue, name, changed, touched, sent, node=node, event_id=event_id)
    state.execute_finish(conn, queue, name, rows.encode(touched, queue))
    # Rows of the same batch follow, in the same transaction.
    keep_role(conn)
    return done


def _attempt(
    conn: Connection,
    queue: str,
    name: str,
    statements: Sequence[Statement],
    own_schemas: object,
    writers: WriterLock | None,
    *,
    node: str,
    lock_timeout: float,
    event_id: int | None,
) -> list[rows.Touched] | None:
    """Runs the statements in a savepoint; returns the rows that they have written.

    own_schemas -- Londiste's own, before the script.  writers -- None: not on the root.

    None: it was rolled back, as applications may have written into a table that it has used.
    """
    with savepoint(conn):
        watch = rows.Watch.begin(conn, queue, root=writers is not None)
        with _session(conn, lock_timeout):
            if writers is not None:
                with _failing(conn, name, node, event_id):
                    writers.begin(conn)
            for statement in statements:
                if writers is not None:
                    with _failing(conn, name, node, event_id, statement):
                        writers.before(conn, statement)
                run_statement(conn, statement, name, node=node, event_id=event_id)
            with _failing(conn, name, node, event_id):
                run_deferred(conn)
        # By the catalog, and first: what follows needs these schemas.
        _check_own_schemas(conn, name, own_schemas, node=node, event_id=event_id)
        touched = watch.end(conn, statements)
        wrote = rows.encode(touched, queue) != rows.NONE
        if writers is not None and writers.missed(conn, wrote=wrote):
            log.info("script %s: runs again, with locks of the tables that it has used", name)
            raise psycopg.Rollback
        return touched
    return None


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


def run_statement(
    conn: Connection,
    statement: Statement,
    name: str,
    *,
    node: str,
    event_id: int | None = None,
) -> None:
    """Runs one statement.  Raises ScriptFailed, or TransientError when a retry may succeed."""
    with _failing(conn, name, node, event_id, statement):
        # In the form of the protocol that refuses two statements in one text.
        conn.execute(statement.text.encode(), prepare=False, binary=True)
    log.info("script %s, statement %d: %s", name, statement.number, statement.shown)


def run_deferred(conn: Connection) -> None:
    """Runs the checks and triggers that are deferred to the commit, which fail or write rows.

    What follows in the transaction is deferred as its constraints are declared.
    """
    conn.execute("set constraints all immediate")
    later = tuples(conn, "deferred_constraints")
    if later:
        names = sql.SQL(", ").join(sql.Identifier(schema, name) for schema, name in later)
        conn.execute(sql.SQL("set constraints {} deferred").format(names))


@contextlib.contextmanager
def _failing(
    conn: Connection,
    name: str,
    node: str,
    event_id: int | None,
    statement: Statement | None = None,
) -> Iterator[None]:
    """Turns errors of the server into ScriptFailed, or into TransientError.

    statement -- None: what the statements have deferred to the end of the script.
    """
    try:
        yield
    except psycopg.Error as error:
        ours = from_database(error, where=describe_dsn(conn.info.dsn))
        if isinstance(ours, TransientError):
            if statement is not None and not isinstance(ours, LockTimeout | Deadlock):
                ours.say_more(f"script {name}, line {statement.line}: {statement.shown}", "")
            raise ours from error
        what, shown, number = "a deferred constraint or trigger", "", None
        if statement is not None:
            what = f"statement {statement.number} (line {statement.line})"
            shown, number = statement.shown, statement.number
        state_text = f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""
        # It may read rows.  What it says itself is no secret of theirs.
        text = "" if statement is None else statement.text
        said = as_shown(error, Values.APART, text)
        raise ScriptFailed(
            f"script {name}: {what} failed on node {node}: {said.message}{state_text}",
            detail="; ".join(filter(None, [shown, said.detail])),
            hint="; ".join(filter(None, [said.hint, choices(name)])),
            event_id=event_id,
            statement=number,
        ) from error


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
        "select pg_catalog.set_config(n, v, false)"
        " from unnest(%s::pg_catalog.text[], %s::pg_catalog.text[]) as s(n, v)",
        [names, values],
    )


def _check_own_schemas(
    conn: Connection, name: str, before: object, *, node: str, event_id: int | None
) -> None:
    """Refuses a script that changes Londiste's own schemas."""
    if tuples(conn, "own_schemas") != before:
        raise failed(
            name,
            node,
            "it changes the schemas of replication",
            "it changes tables or functions of pgq, pgq_node or the schema londiste",
            "remove these statements; londiste install upgrades the schemas",
            event_id,
        )


def _check(
    conn: Connection, queue: str, name: str, before: object, *, node: str, event_id: int | None
) -> set[str]:
    """Checks a script's changes of replicated objects: refuses them.

    Returns the tables whose columns it has changed, by their names here.
    """
    changes = state.script_changes(conn, before)
    for table, change in changes:
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
    return {table for table, _ in changes}


def _copy_changed(
    conn: Connection,
    queue: str,
    name: str,
    changed: set[str],
    touched: Sequence[rows.Touched],
    sent: str | None,
    *,
    node: str,
    event_id: int | None,
) -> None:
    """Copies tables again that a script has changed, in columns or rows, during their copy."""
    here = {one.place.table for one in touched if one.place.queue == queue and one.rows.any}
    above = rows.decode(sent) or {}
    for known in tables.get_table_list(conn, queue):
        if not known.local or known.state in (None, "ok"):
            continue
        if str(known.dest) in changed or str(known.name) in here or str(known.name) in above:
            with refusing(name, node, event_id, StateError):
                copied_rows.require_known(conn, queue, known)
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
