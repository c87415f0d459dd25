"""Whether a script has the same effect on this node as on the root, by the rows that it writes.

``rows`` counts and decides; this asks the database and raises.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from londiste.db import catalog
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument, quote, word
from londiste.db.queries import tuples
from londiste.errors import BadOption, ScriptFailed, StateError
from londiste.handlers.base import TableRules
from londiste.handlers.table_rules import HandlerAttrs
from londiste.replication import sqlapi as tables
from londiste.replication.ddl import rows
from londiste.replication.ddl.failures import AS_REPLICA, choices, refusing
from londiste.replication.ddl.header import Attributes, Condition, fill
from londiste.replication.ddl.split import split, words_of
from londiste.replication.model import ReplicatedTable

#: The columns of a table by their names, with their numbers.
Columns: TypeAlias = Mapping[str, int]


def check_rows(
    conn: Connection,
    queue: str,
    name: str,
    touched: Sequence[rows.Touched],
    sent: str | None,
    *,
    node: str,
    event_id: int | None,
) -> None:
    """Raises ScriptFailed where the rows of a script are not those of the root.

    touched -- what it has written here; sent -- what it has written on the root, as it is sent.
    """
    found = rows.problems(touched, rows.decode(sent), _registered(conn, queue), queue)
    if found:
        raise _refused(name, node, found, event_id)


def check_here_only(name: str, node: str, touched: Sequence[rows.Touched]) -> None:
    """Raises ScriptFailed where a script for this node alone has changed replicated rows."""
    found = sorted({one.place.dest for one in touched if one.rows.any})
    if found:
        raise ScriptFailed(
            f"script {name} failed on node {node}: it changes rows of table {', '.join(found)}",
            detail="with --local a script changes definitions only: the rows are replicated, and"
            " the script is not run here again when it comes from the root",
            hint="omit these statements; change rows that only this node has with psql",
        )


def require_one_queue(queue: str, name: str, node: str, touched: Sequence[rows.Touched]) -> None:
    """Raises ScriptFailed on the root where another queue would lose rows of a script."""
    found = rows.captured_elsewhere(touched, queue)
    if found:
        raise ScriptFailed(
            f"script {name} failed on node {node}: {found[0].message}",
            detail="captures do not fire in a script, so the nodes of that queue would not get"
            " these rows",
            hint="omit the statements that write rows, and run them on the root with psql, which"
            " captures them for each queue",
        )


def require_new_here(conn: Connection, queue: str, name: str, text: str) -> None:
    """Raises StateError on a root where the script has run through another queue of it."""
    for other, there, _, root in tuples(conn, "script_elsewhere", queue=queue, name=name):
        if root and there == text:
            raise StateError(
                f"script {name} has run in this database already, through queue {other}",
                detail="a second run would repeat its changes on the root; nothing was executed",
                hint=f"on each other node of queue {queue}: londiste execute run"
                f" {word(name)} --local; or, to run it here once more, rename it",
            )


def ruled_columns(conn: Connection, queue: str) -> Mapping[TableName, Columns]:
    """The columns here, and their numbers, of each table of which a rule of this node names some.

    A number stays with a column that is renamed, and is never given to another one.
    """
    return {
        table.name: {column.name: column.number for column in catalog.columns(conn, table.dest)}
        for table in _ruled(conn, queue)
    }


def check_rules(
    conn: Connection,
    queue: str,
    name: str,
    before: Mapping[TableName, Columns],
    *,
    node: str,
    event_id: int | None,
) -> None:
    """Raises ScriptFailed where a rule names a column that a script has renamed or replaced.

    before -- ``ruled_columns`` before it.
    """
    after = ruled_columns(conn, queue)
    for table in _ruled(conn, queue):
        rules, was, now = table.wants, before.get(table.name, {}), after[table.name]
        gone, taken = lost_columns(rules, _in_condition(rules, was), was, now)
        if gone:
            unnamed = sorted(set(taken) - {_name_here(rules, column) for column in rules.named})
            other = (
                f"{_columns(unnamed)} is not named"
                if unnamed
                else "other columns have their names now"
            )
            raise ScriptFailed(
                f"script {name} failed on node {node}: table {table.name}: it renames or replaces"
                f" {_columns(gone)}, which the rule of this node names ({other})",
                detail="values would be missing, or in clear, without an error",
                hint=_follow(table, name, unnamed, was, now),
                event_id=event_id,
            )


def lost_columns(
    rules: TableRules, condition: Collection[str], before: Columns, after: Columns
) -> tuple[list[str], list[str]]:
    """The columns that rules name and that are gone, and those that take their place.

    condition -- the columns here that the condition of the rules names.
    before, after -- the columns of the table here.
    A column that has another name is gone if the rules treat that name in another way, or if the
    condition would not read it any more.  One that is dropped has no values any more, so that it
    is gone only if there is a new one that the rules do not name.
    """
    named = {_name_here(rules, column) for column in rules.named}
    gone = named & before.keys() - after.keys()
    taken = after.keys() - before.keys() - named
    if not (gone and taken):
        gone, taken = set(), set()
    old = {number: column for column, number in before.items()}
    for now, number in after.items():
        was = old.get(number, now)
        differs = _treats(rules, was) != _treats(rules, now)
        if was != now and (differs or {was, now} & set(condition)):
            gone |= {was}
            taken |= {now}
    return sorted(gone), sorted(taken)


def _treats(rules: TableRules, column: str) -> tuple[bool, str]:
    """What rules do with a column here: whether it is written, and by its name if it is changed."""
    theirs = {here: there for there, here in rules.renamed}.get(column, column)
    return rules.keeps(theirs), theirs if theirs in rules.changed else ""


def _name_here(rules: TableRules, column: str) -> str:
    return dict(rules.renamed).get(column, column)


def _in_condition(rules: TableRules, columns: Columns) -> set[str]:
    """The columns here that the condition of rules names; all, where it cannot be read."""
    if not rules.where:
        return set()
    with contextlib.suppress(BadOption):
        words = words_of(rules.where)
        return {_name_here(rules, word.text) for word in words if word.names} & columns.keys()
    return set(columns)


def came_before(
    conn: Connection,
    queue: str,
    name: str,
    text: str,
    attrs: str | None,
    *,
    node: str,
    event_id: int | None,
    sent: str | None,
) -> bool:
    """Whether another queue has brought the same script, which is not to run once more.

    The same: with this node's table names, too.  Raises ScriptFailed where it has changed rows of
    this queue on the root: the run for the other queue was before they were here.
    """
    with refusing(name, node, event_id, BadOption):
        mine = fill(text, names_here(conn, queue, Attributes.decode(attrs)))
        others = [
            other
            for other, there, its, root in tuples(conn, "script_elsewhere", queue=queue, name=name)
            if not root
            and there == text
            and fill(there, names_here(conn, other, Attributes.decode(its))) == mine
        ]
        if not others:
            return False
        counts = rows.decode(sent)
        unknown = counts is None and event_id is not None and rows.may_write(split(mine))
    found = [
        rows.Problem(
            table,
            f"queue {others[0]} has brought it before, and it has changed rows of table {table} of"
            f" queue {queue} since",
            known.recopy,
        )
        for table, known in _registered(conn, queue).items()
        if known.in_sync
        and known.rules is not None
        and known.rules.stored
        and (unknown or (counts or {}).get(table, rows.Rows()).any)
    ]
    if found:
        raise _refused(name, node, found, event_id)
    return True


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


def _ruled(conn: Connection, queue: str) -> list[ReplicatedTable]:
    """The local tables with rules that name columns; where rules are not known, nothing runs."""
    found = []
    for table in tables.get_table_list(conn, queue):
        with contextlib.suppress(BadOption):
            rules = table.wants
            if table.local and rules.stored and (rules.named or rules.where):
                found.append(table)
    return found


def _follow(
    table: ReplicatedTable, script: str, more: Sequence[str], was: Columns, now: Columns
) -> str:
    """Hint that names more columns in the rule of a table, or changes the rule after the script.

    more -- new names that the rule can have before the script runs.
    """
    rule = HandlerAttrs.of(table.attrs)
    change = f"londiste change-handler {argument(table.name)}"
    where = _renamed(rule.where, was, now)
    if where == rule.where:
        change += f" --handler {rule.handler.partition('(')[0]}" if rule.handler else ""
        for option, names in (("--skip-columns", rule.skip_columns), ("--columns", rule.columns)):
            if names:
                listed = shlex.quote(",".join(dict.fromkeys([*names, *more])))
                change = f"londiste change-handler {argument(table.name)} {option} {listed}"
        if more:
            return f"name the new columns, too: {change}; {choices(script)}"
    else:
        change += f" --where {shlex.quote(where)}"
    return (
        f"run its statements here with psql; then: {change};"
        f" then: londiste execute mark-done {word(script)}"
    )


def _renamed(where: str, was: Columns, now: Columns) -> str:
    """A condition with the names that its columns have now."""
    new = {number: column for column, number in now.items()}
    with contextlib.suppress(BadOption):
        for word in reversed(words_of(where)):
            name = new.get(was.get(word.text, 0), word.text) if word.names else word.text
            if name != word.text:
                where = where[: word.start] + quote(name) + where[word.end :]
    return where


def _columns(names: Sequence[str]) -> str:
    return f"column{'s' * (len(names) > 1)} {', '.join(names)}"


def _registered(conn: Connection, queue: str) -> Mapping[str, rows.Registered]:
    return {
        str(table.name): _of(table) for table in tables.get_table_list(conn, queue) if table.local
    }


def _of(table: ReplicatedTable) -> rows.Registered:
    handler = table.attrs.get("handler", "").partition("(")[0]
    try:
        rules = table.wants
    except BadOption:
        rules = None
    recopy = "skip_truncate" not in table.attrs and (rules is None or rules.stored)
    return rows.Registered(handler, rules, table.state == "ok", recopy)


def _refused(
    name: str, node: str, found: Sequence[rows.Problem], event_id: int | None
) -> ScriptFailed:
    again = " ".join(argument(TableName.parse(one.table)) for one in found if one.resync)
    by_hand = [one.table for one in found if not one.resync]
    done = f"londiste execute mark-done {word(name)}"
    first = "run its changes of definitions here with psql, if it has any"
    if by_hand:
        first += (
            f", and make its changes of rows of {', '.join(by_hand)}, if they are right here"
            f" ({AS_REPLICA})"
        )
    return ScriptFailed(
        f"script {name} failed on node {node}: {found[0].message}",
        detail="; ".join(
            [*(one.message for one in found[1:]), "every node runs the statements of a script"]
        ),
        hint=f"{first}; then: {done}" + (f"; then: londiste resync {again}" if again else ""),
        event_id=event_id,
    )
