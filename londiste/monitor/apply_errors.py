"""Events that failed to apply, with rows, possible decisions and their SQL."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict

import psycopg

from londiste.applier import statements
from londiste.db import owner
from londiste.db.connection import Connection
from londiste.db.ddl import comment
from londiste.db.names import TableName, argument, quote
from londiste.db.relation import shapes
from londiste.errors import BadOption, UsageError
from londiste.handlers.base import literal
from londiste.replication import renamed_tables
from londiste.replication import sqlapi as tables
from londiste.replication.apply import errors
from londiste.replication.apply.errors import ApplyError
from londiste.replication.forwarding.combined_queue import others_filling, rekeyed

_RETRY = "londiste events retry"
_ADDRESS = re.compile(r"(\d{1,19})(?::(\d{1,10}))?")


@dataclass(frozen=True)
class Decision:
    """A possible decision and its command."""

    what: str
    command: str


class FailedEvent(TypedDict):
    """A failed event, its rows, and what can be decided.

    event -- its number, and the row of a packed event.
    table, here -- name of the table in the queue, and on this node.
    row, row_here, row_here_then -- the event's row, the row with its key now, and at the error.
    choices -- commands that decide it.
    """

    event: str
    table: str | None
    here: str | None
    op: str | None
    kind: str
    state: str
    message: str
    sqlstate: str | None
    key: list[str]
    row: dict[str, Any] | None
    row_here: dict[str, Any] | None
    row_here_then: dict[str, Any] | None
    statement: str | None
    consumer: str
    tick: int
    first_seen: datetime
    last_seen: datetime
    times: int
    decided_at: datetime | None
    decided_by: str | None
    reason: str | None
    ended_at: datetime | None
    choices: list[Decision]


@dataclass(frozen=True)
class StoredError:
    """An event that could not be applied.

    now -- the present target row, as JSON; None: there is none, or its key is unknown.
    choices -- empty for events of the history.
    """

    error: ApplyError
    now: str | None = field(repr=False)
    choices: Sequence[Decision]

    def as_dict(self) -> FailedEvent:
        """For JSON."""
        error = self.error
        return {
            "event": error.address,
            "table": error.table,
            "here": error.dest,
            "op": error.op,
            "kind": error.kind,
            "state": error.state,
            "message": error.message,
            "sqlstate": error.sqlstate,
            "key": list(error.key or ()),
            "row": _json(error.image),
            "row_here": _json(self.now),
            "row_here_then": _json(error.here),
            "statement": error.statement,
            "consumer": error.consumer,
            "tick": error.tick,
            "first_seen": error.first_seen,
            "last_seen": error.last_seen,
            "times": error.times,
            "decided_at": error.decided_at,
            "decided_by": error.decided_by,
            "reason": error.reason,
            "ended_at": error.ended_at,
            "choices": list(self.choices),
        }


def look(conn: Connection, queue: str, *, every: bool = False) -> list[StoredError]:
    """The failed events of the node of ``conn``; with ``every`` the history, too."""
    found = errors.get_apply_errors(conn, queue, every=every)
    return [
        StoredError(
            error,
            _now(conn, error) if error.state == "halted" else None,
            open_choices(conn, error, queue),
        )
        for error in found
    ]


def open_choices(conn: Connection, error: ApplyError, queue: str) -> tuple[Decision, ...]:
    """Possible decisions about a failed event; none if it was decided or has ended."""
    if error.state != "halted":
        return ()
    others = (
        others_filling(conn, queue, error.table, error.dest) if error.table and error.dest else ()
    )
    return tuple(choices(error, queue, others, by_name(conn, error, queue)))


def by_name(conn: Connection, error: ApplyError, queue: str) -> tuple[Decision, ...]:
    """Decisions about an event whose table is not here by its name, or is another one."""
    table = (
        tables.get_table(conn, queue, TableName.parse(error.table))
        if error.kind == "structure" and error.table
        else None
    )
    if table is None or not table.local:
        return ()
    found = shapes(conn, [table.dest]).get(table.dest)
    name = argument(table.name)
    again = Decision("copy the table again", f"londiste resync {name}")
    if found is None:
        renamed = renamed_tables.find(conn, queue).get(table.name)
        if renamed is not None:
            return (Decision(f"{renamed.back}; then retry", _RETRY),)
        return (
            Decision("create the table, then retry", _RETRY),
            Decision("stop replicating it", f"londiste remove-table {name}"),
        )
    copied = renamed_tables.replaced(conn, queue, {table.dest: found.oid}).get(table.dest)
    if copied is None:
        return ()
    if copied.now is None:
        accept = renamed_tables.accept(queue, table.name)
        return again, Decision(f"if it has all rows: {accept}; then retry", _RETRY)
    return Decision(f"{renamed_tables.swap(table.dest, copied.now)}; then retry", _RETRY), again


def known(address: str, of_node: Mapping[str, ApplyError]) -> ApplyError:
    """The failed event with this address.  BadOption, UsageError.

    of_node -- the failed events of the node, by address.
    """
    if _ADDRESS.fullmatch(address) is None:
        raise BadOption(
            f"{address}: not an event number",
            hint="give a number such as 4711, or 4711:7 for a row of a packed event",
        )
    found = of_node.get(address)
    if found is None:
        number = address.partition(":")[0]
        rows = [other for other in of_node if other.partition(":")[0] == number]
        raise UsageError(
            f"event {address}: not a failed event of this node",
            detail=f"failed rows of event {number}: {', '.join(rows)}" if rows else "",
            hint="londiste events show",
        )
    return found


def choices(
    error: ApplyError,
    queue: str,
    others: Sequence[str] = (),
    named: Sequence[Decision] = (),
) -> Iterator[Decision]:
    """Pure: possible decisions about a failed event of a queue, the best first.

    others -- other sources of its target table, whose rows the leaf must keep.
    named -- what is decided instead when its table is not here, or is another one (``by_name``).
    """
    table = argument(error.table) if error.table else "TABLE"
    retry = _RETRY
    skip = f"londiste events skip {error.address} --reason '…'"
    if error.kind == "exists" and others:
        whose = ", ".join(others)
        yield Decision(f"if the row of {whose} is wrong: change its key there, then retry", retry)
        yield Decision(
            f"else {rekeyed(error.table or '')}; then skip the event. The row of {whose} keeps the"
            " key, and every later UPDATE or DELETE of the old key at this event's source would"
            " change that row",
            skip,
        )
        yield Decision(
            "use a separate table for this queue: remove the table, then add-table --no-merge"
            " --dest-table OTHER",
            f"londiste remove-table {table}",
        )
        return
    match error.kind:
        case _ if named:
            yield from named
        case "missing":
            yield Decision("insert the row as it was before the event, then retry", retry)
        case "exists" | "constraint":
            yield Decision("change or delete the conflicting row, then retry", retry)
        case "many":
            yield Decision("delete all rows with the key but one, then retry", retry)
        case "value" | "structure":
            yield Decision(
                f"alter {error.dest or table} to match the provider's table, then retry", retry
            )
        case "shared":
            pass
        case "unproven":
            yield Decision(
                "read it on the provider; if it is right, accept it there: select"
                f" pgq.accept_control_event({literal(queue)}, {error.event_id}); then retry",
                retry,
            )
        case "refused":
            yield Decision("grant the privilege or repair the trigger, then retry", retry)
        case _:
            yield Decision("find the writer of this event, then retry", retry)
    yield Decision("skip this event, on this node only", skip)
    if error.kind in {"missing", "exists"}:
        yield Decision(
            "apply the event, now and in future (apply_remote)",
            f"londiste change-policy {table} apply_remote",
        )
    if error.kind in {"missing", "exists", "many", "constraint", "value"}:
        yield Decision(
            "keep the local rows, now and in future (keep_local)",
            f"londiste change-policy {table} keep_local",
        )
    if error.kind == "shared":
        yield Decision(
            "ignore every TRUNCATE of this source",
            f"londiste change-handler {table} --handler londiste --handler-arg ignore_truncate=1",
        )
    # Neither a comparison nor a copy can tell the rows of several sources apart.
    if not others and error.kind not in {"refused", "structure", "shared", "unproven"}:
        yield Decision("after the decision, find other differences", f"londiste compare {table}")
        yield Decision("copy the table again", f"londiste resync {table}")


def as_sql(error: ApplyError) -> str:
    """The event as a statement for psql, for review."""
    head = f"event {error.address}: {error.op or error.kind} of table {error.table}"
    head = "\n".join(map(comment, [head, *error.message.splitlines()]))
    image: dict[str, str | None] | None = _json(error.image)
    if image is None or error.dest is None:
        return f"{head}\n-- the event has no row\n"
    table = TableName.parse(error.dest).quoted
    key = [name for name in error.key or image if name in image]
    where = " and ".join(
        f"{quote(name)} {'is null' if image[name] is None else '= ' + _literal(image[name])}"
        for name in key
    )
    if error.op == "delete":
        return f"{head}\ndelete from {table} where {where};\n"
    if error.op == "update":
        others = {name: value for name, value in image.items() if name not in key}
        pairs = ", ".join(f"{quote(name)} = {_literal(v)}" for name, v in others.items())
        return f"{head}\nupdate {table} set {pairs} where {where};\n"
    names = ", ".join(map(quote, image))
    values = ", ".join(_literal(value) for value in image.values())
    return (
        f"{head}\ninsert into {table} ({names}) overriding system value\n    values ({values});\n"
    )


def _literal(value: str | None) -> str:
    return "null" if value is None else literal(value)


def _json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _now(conn: Connection, error: ApplyError) -> str | None:
    """The present target row."""
    image: dict[str, str | None] | None = _json(error.image)
    if image is None or error.dest is None:
        return None
    table = TableName.parse(error.dest)
    shape = shapes(conn, [table]).get(table)
    key = tuple(error.key or ()) or (shape.key if shape else ())
    if shape is None or not key or not set(key) <= image.keys() & shape.by_name.keys():
        return None
    keyed = statements.payload({name: image[name] for name in key})
    with contextlib.suppress(psycopg.Error):
        with conn.transaction():
            found = owner.ask(conn, shape, statements.find_sql(shape, key), keyed)
        return found[0] if found else None
    return None
