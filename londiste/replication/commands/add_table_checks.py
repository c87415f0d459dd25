"""Selection and checks of the tables that ``add-table`` adds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from londiste.cascade.commands.install_sql import has_nodes
from londiste.cascade.model import NodeInfo
from londiste.db import catalog
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName, argument, quote
from londiste.db.queries import fetch, tuples
from londiste.errors import AccessDenied, StateError, UnknownTable, UsageError
from londiste.replication.commands import add_table_options
from londiste.replication.model import ReplicatedTable, TableOptions
from londiste.replication.patterns import (
    Pattern,
    Selected,
    is_pattern,
    matches,
    parsed,
    require_names,
    select,
    table_meant,
)

#: Why ``sql/queries/left_out.sql`` excludes a table or sequence.
LEFT_OUT = {
    "schema": "cannot be replicated: the name of its schema has a dot, and in a queue the first"
    " dot ends the schema; alter schema … rename to …",
    "unlogged": "cannot be replicated: unlogged, a crash empties it; alter table … set logged",
}


def pick(
    patterns: Sequence[Pattern],
    candidates: Sequence[TableName],
    done: Sequence[TableName],
    every: bool,
    force: bool,
    conn: Connection,
    *,
    on_root: bool,
) -> Selected:
    require_names("table", patterns, every)
    if every:
        return Selected(tuple(candidates))

    def unknown(text: str) -> UnknownTable:
        info = None if is_pattern(text) else catalog.info(conn, parsed(text))
        if info is not None:
            return _not_plain(parsed(text), info.kind) or (
                UnknownTable(
                    f"table {text} cannot be replicated",
                    detail="unlogged, temporary and system tables and those of replication"
                    " itself are excluded; nothing was added",
                    hint="londiste missing",
                )
                if on_root
                else UnknownTable(
                    f"table {text} is not part of the queue",
                    detail="nothing was added",
                    hint="add it on the root first, with its settings: londiste -c ROOT.toml"
                    f" add-table {argument(text)}",
                )
            )
        dotted = [
            schema
            for _, schema, name, why in tuples(conn, "left_out")
            if why == "schema" and matches(TableName(schema, name), [text])
        ]
        if dotted:
            return UnknownTable(
                f"table {text} cannot be replicated: its schema has a dot in its name",
                detail="in a queue the first dot ends the schema's name; nothing was added",
                hint=f"rename the schema: alter schema {quote(dotted[0])} rename to …",
            )
        return UnknownTable(
            f"table {text} does not exist in {describe_dsn(conn.info.dsn)}",
            detail="nothing was added",
            hint=add_table_options.name_hint(text)
            or table_meant(text, [*candidates, *done], "londiste missing"),
        )

    return select(patterns, candidates, done, unknown, force=force)


@dataclass(frozen=True)
class Facts:
    """What has to be known of a table that is added.

    kind -- ``r`` table, ``p`` partitioned table, ``v`` view, …
    columns; nullable -- those that may be NULL.
    owner -- its role; mine -- this role has the rights of the owner.
    sequences -- of its columns; without those that no queue can carry or this role cannot read.
    """

    name: TableName
    kind: str
    has_columns: bool
    has_key: bool
    sequences: tuple[TableName, ...]
    nullable: tuple[str, ...] = ()
    owner: str = ""
    mine: bool = True
    columns: tuple[str, ...] = ()


def look(conn: Connection, tables: Sequence[TableName]) -> dict[TableName, Facts]:
    """The facts of the existing ones of these tables, read at once."""
    found = fetch(
        conn,
        "add_table_facts",
        schemas=[table.schema for table in tables],
        names=[table.name for table in tables],
    )
    return {
        TableName(row["schema"], row["name"]): Facts(
            TableName(row["schema"], row["name"]),
            row["kind"],
            row["has_columns"],
            row["has_key"],
            tuple(map(TableName.parse, row["sequences"])),
            tuple(row["nullable"]),
            row["owner"],
            row["mine"],
            tuple(row["columns"]),
        )
        for row in found
    }


class Looks:
    """Facts of tables in several databases: those that are asked for together are read at once."""

    def __init__(self, at: Callable[[str], Connection]) -> None:
        self._at = at
        self._known: dict[tuple[str, TableName], Facts | None] = {}

    def ask(self, dsn: str, tables: Sequence[TableName]) -> None:
        """Reads the facts of tables that ``of`` will be asked for."""
        found = look(self._at(dsn), tables)
        self._known |= {(dsn, table): found.get(table) for table in tables}

    def of(self, dsn: str, table: TableName) -> Facts | None:
        """The facts of a table; None: it does not exist."""
        if (dsn, table) not in self._known:
            self.ask(dsn, [table])
        return self._known[dsn, table]


def require_there(looks: Looks, node: NodeInfo, dsn: str, added: Iterable[ReplicatedTable]) -> None:
    """Raises StateError for a replicated table that was dropped: nothing would create it."""
    for table in added:
        if "handler" not in table.attrs and looks.of(dsn, table.dest) is None:
            raise StateError(
                f"table {table.name} is replicated on node {node.name}, but does not exist in"
                f" {describe_dsn(dsn)}",
                detail="nothing was added",
                hint=create_again(argument(table.name)),
            )


def create_again(name: str) -> str:
    """What helps for a replicated table of a subscriber that was dropped.

    name -- as an argument of a command.
    """
    return (
        f"londiste remove-table {name}, then londiste add-table {name} --create-full, with its"
        f" handler and filters; or create it, then londiste resync {name}"
    )


def check_table(
    conn: Connection,
    table: TableName,
    facts: Facts | None,
    options: TableOptions,
    theirs: ReplicatedTable | None = None,
) -> bool:
    """Refuses tables that cannot be added; True for an allowed table without key.

    facts -- None: the table does not exist.
    """
    if facts is None:
        raise UnknownTable(
            f"table {table} does not exist in {describe_dsn(conn.info.dsn)}",
            detail="nothing was added",
            hint="create it first, or as on the provider: --create",
        )
    problem = _not_plain(table, facts.kind)
    if problem is not None:
        raise problem
    if not facts.has_columns:
        raise UsageError(
            f"table {table} has no columns",
            detail="nothing was added",
            hint="add a column first",
        )
    if facts.has_key or any(a.startswith("pkey=") for a in options.trigger_args):
        return False
    # What the provider admits can also be stored here.
    if options.insert_only or options.whole_row:
        return True
    if theirs is not None and not {"insert_only", "whole_row"}.isdisjoint(theirs.attrs):
        return True
    if options.wants.events is not None:
        # What its handler makes of events may have no key: a history of the rows, for one.
        return True
    require_whole(conn, [table])
    raise UsageError(
        f"table {table} has no primary key",
        detail="without one an UPDATE or DELETE cannot be replicated",
        hint="add a primary key; or name the columns that identify a row: --trigger-arg"
        " pkey=a,b; or allow inserts only: --insert-only; or match rows by all columns:"
        " --whole-row",
    )


def require_owner(conn: Connection, facts: Facts | None) -> None:
    """Refuses a table of a subscriber whose owner's rights this role lacks.  Raises AccessDenied.

    A copy drops and restores its indexes and keys, and the removal drops its triggers.
    """
    if facts is None or facts.mine:
        return
    user = conn.info.user
    raise AccessDenied(
        f"table {facts.name} belongs to {facts.owner}, and {user} has not the rights of its owner",
        detail="without them it can be neither copied nor removed from replication; nothing was"
        " added",
        hint=f"as an administrator of {describe_dsn(conn.info.dsn)}: alter table"
        f" {facts.name.quoted} owner to {quote(user)}",
    )


def require_one_of_tree(
    conn: Connection, added: Sequence[TableName], done: Sequence[TableName]
) -> None:
    """Refuses a partition together with its partitioned table, and foreign partitions.

    Raises StateError.

    done -- tables that are in the queue already.
    """
    names = {"added": list(map(str, added)), "done": list(map(str, done))}
    for row in fetch(conn, "partition_conflicts", **names):
        partition, above = row["partition"], row["above"]
        if row["detach"]:
            raise StateError(
                f"partition {partition} of table {above} is a foreign table",
                detail="its rows are on another server, where no trigger captures them; nothing"
                " was added",
                hint=f"detach it: {row['detach']}; or add the other partitions, each by its name",
            )
        if row["partition_added"] and row["above_added"]:
            hint = f"add one of them: londiste add-table {argument(above)}"
        else:
            first = above if row["partition_added"] else partition
            hint = f"remove the other one first: londiste remove-table {argument(first)}"
        raise StateError(
            f"table {partition} is a partition of table {above}: a queue has one of them only",
            detail="each change would be captured twice; nothing was added",
            hint=hint,
        )


def require_not_null(facts: Facts | None, options: TableOptions) -> None:
    """Refuses a key given by pkey= with columns that may be NULL: no node finds such a row."""
    if facts is None:
        return
    given = [a.removeprefix("pkey=") for a in options.trigger_args if a.startswith("pkey=")]
    columns = nullable_of(",".join(given), facts)
    if columns:
        raise UsageError(
            f"the key of table {facts.name} may be NULL: {', '.join(columns)}",
            detail="an UPDATE or DELETE of a row with a NULL in its key cannot be replicated;"
            " nothing was added",
            hint=not_null(facts.name, columns),
        )


def ignores_nothing(facts: Facts | None, options: TableOptions) -> list[str]:
    """What to say of names of ignore= that are no columns of the table: they have no effect."""
    if facts is None:
        return []
    names = {
        name: None
        for argument in options.trigger_args
        if argument.startswith("ignore=")
        for name in _listed(argument.removeprefix("ignore="), facts.columns)
        if name not in facts.columns
    }
    if not names:
        return []
    return [
        f"table {facts.name}: ignore= names {', '.join(names)}, which it does not have;"
        f" columns: {', '.join(facts.columns)}"
    ]


def nullable_of(key: str, facts: Facts) -> tuple[str, ...]:
    """Those columns of a key, the value of pkey=, that may be NULL."""
    named = _listed(key, facts.nullable)
    return tuple(name for name in facts.nullable if name in named)


def _listed(value: str, columns: Collection[str]) -> list[str]:
    """The names in a list of columns, as pgq._column_list() reads it."""
    parts = [part.strip() for part in value.split(",")]
    return [name for part in parts for name in ([part] if part in columns else part.split())]


def not_null(table: TableName, columns: Sequence[str]) -> str:
    """The statement that makes columns NOT NULL."""
    changes = ", ".join(f"alter column {quote(name)} set not null" for name in columns)
    return f"alter table {table.quoted} {changes}"


class TableInCopy(StateError):
    """A copy has dropped the key and the indexes of a table, and restores them at its end.

    conn -- its database; queue, table -- what the copy is for.
    """

    def __init__(self, conn: Connection, table: TableName, queue: str, copied: TableName) -> None:
        super().__init__(
            f"table {table} is being copied, and its key is dropped until the copy ends",
            detail=f"nothing was added; the copy is in {describe_dsn(conn.info.dsn)}",
            hint=f"with the settings of queue {queue} there: londiste wait-sync; then repeat the"
            " command",
        )
        self.conn, self.queue, self.table = conn, queue, copied


def require_whole(conn: Connection, names: Sequence[TableName]) -> None:
    """Raises TableInCopy if a copy has dropped the key or indexes of one of these tables."""
    if not has_nodes(conn):
        return
    for row in fetch(conn, "tables_dropped_by_copy", names=list(map(str, names))):
        copied = TableName.parse(row["table_name"])
        raise TableInCopy(conn, TableName.parse(row["dest"]), row["queue_name"], copied)


def _not_plain(table: TableName, kind: str) -> UnknownTable | None:
    words = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}
    if kind in {"r", "p"}:
        return None
    return UnknownTable(
        f"{table} is {words.get(kind, 'not a table')}",
        detail="only tables can be replicated",
        hint="add the tables that it reads from",
    )
