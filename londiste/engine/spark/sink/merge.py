"""Merge of an epoch's rows into tables, in the driver, on the server.

    rows of chunks  ->  a temporary table with the columns' types
                    ->  the last change of each key
                    ->  DELETE, then INSERT … ON CONFLICT DO UPDATE

Deletes of all tables come before the rows, so that a row may have what a deleted one had.
"""

# ruff: noqa: S608 - names pass through quote(), types come from format_type(), values are in the
# parameters or in tables

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import psycopg
from psycopg import RawCursor

from londiste.changes.row_values import hide_values
from londiste.db.connection import Connection, use_own_names, whereabouts
from londiste.db.names import quote
from londiste.db.queries import translated, try_condition
from londiste.db.relation import Relation, RelationColumn
from londiste.engine.spark.sink.event_rows import Given, require
from londiste.engine.spark.sink.options import Mode, TableOptions
from londiste.engine.spark.sink.stage import StagedRows
from londiste.engine.spark.sink.type_check import require_columns
from londiste.error_values import Values, server_text
from londiste.errors import BadOption, LondisteError, StateError


def write(
    conn: Connection,
    options: TableOptions,
    shapes: Sequence[Relation],
    columns: Sequence[str],
    given: Sequence[tuple[StagedRows, Given]],
) -> None:
    """Writes the rows of an epoch in the open transaction.

    shapes -- relations of the tables, in the order of the options.
    columns -- columns of the rows; empty: each chunk has its own list.

    Raises StateError for ambiguous rows, and errors of the server.
    """
    # Triggers of the tables find what they name.
    use_own_names(conn)
    parts = [_Part(conn, options, shape, number) for number, shape in enumerate(shapes)]
    for chunk, text in given:
        parts[chunk.table].add(chunk, text)
    used = [part for part in parts if part.chunks]
    for part in used:
        part.read(columns)
    if options.mode is Mode.MERGE:
        for part in used:
            part.delete()
        for part in used:
            part.put()


@dataclass
class _Part:
    """The rows of one table."""

    conn: Connection
    options: TableOptions
    shape: Relation
    number: int
    chunks: list[tuple[StagedRows, Given]] = field(default_factory=list)
    columns: list[RelationColumn] = field(default_factory=list)

    def add(self, chunk: StagedRows, text: Given) -> None:
        self.chunks.append((chunk, text))

    def read(self, columns: Sequence[str]) -> None:
        """Reads all chunks; rows that are appended are in the table then."""
        merge = self.options.mode is Mode.MERGE
        names = list(columns) or self._columns()
        require_columns(self.shape, names, key=merge)
        self.columns = [self.shape.by_name[name] for name in names]
        into = f"{self.shape.name.quoted} ({self._names()}) overriding system value"
        if merge or columns:
            kinds = [f"c{n} {_kind(c)}" for n, c in enumerate(self.columns)]
            more = ["o int", "v bigint", "e bigint", "w bigint"] if merge else []
            self._do(f"create temp table {self._all} ({', '.join([*more, *kinds])}) on commit drop")
        if columns:
            self._copy()
        else:
            self._parse(self._all if merge else into)
        if columns and not merge:
            # COPY would refuse some tables to which rows can be added: views, and row security.
            values = ", ".join(f"c{n}" for n in range(len(self.columns)))
            self._do(f"insert into {into} select {values} from {self._all}")
        if merge:
            if self.options.where:
                self._filter()
            self._fold()

    def _copy(self) -> None:
        """Reads chunks of lines; a staged one passes through the driver, as text."""
        statement = f"copy {self._all} from stdin"
        for chunk, (text, parameters) in self.chunks:
            lines = chunk.rows
            with self._without_values(), RawCursor(self.conn) as cursor:
                if not lines:
                    row = cursor.execute(f"select {text}", parameters).fetchone()
                    require(int(row is not None and row[0] is not None), 1)
                    lines = row[0] if row else ""
                with cursor.copy(statement) as copy:
                    copy.write(lines)
                require(cursor.rowcount, chunk.count)

    def _parse(self, into: str) -> None:
        """Reads chunks of JSON objects."""
        kinds = ", ".join(
            f"{quote(c.name)} {'text' if c.json_text else _kind(c)}" for c in self.columns
        )
        values = ", ".join(
            f"r.{quote(c.name)}::{_kind(c)}" if c.json_text else f"r.{quote(c.name)}"
            for c in self.columns
        )
        if self.options.mode is Mode.MERGE:
            values = f"j.o, j.v, j.e, j.w, {values}"
        for chunk, (text, parameters) in self.chunks:
            done = self._do(
                f"insert into {into} select {values}"
                f" from json_to_recordset(('[' || {text} || ']')::json)"
                " as j(o int, v bigint, e bigint, w bigint, i json)"
                f" cross join lateral json_to_record(j.i) as r({kinds})",
                parameters,
            )
            require(done, chunk.count)

    def delete(self) -> None:
        """The rows whose last change is that there is none."""
        equal = self._equal(lambda n, name: (f"t.{quote(name)}", f"f.c{n}"))
        only = "" if self.shape.partitioned else "only "
        self._do(
            f"delete from {only}{self.shape.name.quoted} t using {self._last} f"
            f" where f.nr = 1 and f.o = 0 and {equal}"
        )

    def put(self) -> None:
        """Writes the rows whose last change is not a delete."""
        key = ", ".join(quote(name) for name in self.shape.key)
        sets = ", ".join(
            f"{quote(c.name)} = excluded.{quote(c.name)}"
            for c in self.columns
            if c.name not in self.shape.key
        )
        self._do(
            f"insert into {self.shape.name.quoted} ({self._names()}) overriding system value"
            f" select {', '.join(f'f.c{n}' for n in range(len(self.columns)))}"
            f" from {self._last} f where f.nr = 1 and f.o = 1 order by {self._keys('f.')}"
            f" on conflict ({key}) do {f'update set {sets}' if sets else 'nothing'}"
        )

    def _filter(self) -> None:
        """Makes deletes of the rows that do not match the condition, or not certainly."""
        values = ", ".join(f"a.c{n} as {quote(c.name)}" for n, c in enumerate(self.columns))
        self._do(
            f"update {self._all} a set o = 0 where a.o = 1 and not exists"
            f" (select from (select {values}) as r where ({self.options.where}\n))"
        )

    def _fold(self) -> None:
        """Finds the last change of each key.  Raises StateError if it is not determined."""
        shown = ", ".join(self.shape.key)
        null = " or ".join(f"c{n} is null" for n, _ in self._key())
        if self._any(f"select 1 from {self._all} where {null} limit 1"):
            raise StateError(
                f"table {self.shape.name}: row with NULL in key ({shown})",
                hint="exclude such rows with .where(…)",
            )
        order = ", ".join(f"{letter} desc nulls last" for letter in "vew")
        one = f"partition by {self._keys()} order by {order}"
        self._do(
            f"create temp table {self._last} on commit drop as select * from (select *,"
            " rank() over last as rank, row_number() over last as nr, min(o) over tied as least"
            f" from {self._all} window tied as ({one}), last as ({one}, o desc)) as x"
            " where rank = 1"
        )
        same = self._equal(lambda n, _: (f"a.c{n}", f"b.c{n}"))
        whole = [
            f"row({', '.join(f'{one}.c{n}' for n in range(len(self.columns)))})::text"
            for one in "ab"
        ]
        # With an order, a delete and an insert of one place are an update.
        unordered = "coalesce(v, e, w) is null and least < o"
        if self._any(f"select 1 from {self._last} where {unordered} limit 1") or (
            self._any(f"select 1 from {self._last} where nr > 1 and o = 1 limit 1")
            and self._any(
                f"select 1 from {self._last} a join {self._last} b on {same} where a.nr = 1"
                f" and b.nr > 1 and a.o = 1 and {whole[0]} is distinct from {whole[1]} limit 1"
            )
        ):
            raise StateError(
                f"table {self.shape.name}: several rows with one key ({shown}) in an epoch, and no"
                " column determines the last",
                detail="_commit_version, _event_id and _row determine it, in this order",
                hint="add a column _commit_version (bigint) that increases with each change, or"
                " reduce the rows to one for each key",
            )

    def _columns(self) -> list[str]:
        """Columns of the chunks.  Raises StateError if they differ."""
        sets = {chunk.columns for chunk, _ in self.chunks if chunk.columns}
        if len(sets) > 1 and not self.options.fill:
            one, other = sorted(sets)[:2]
            raise StateError(
                f"table {self.shape.name}: rows have different columns",
                detail=f"missing from some rows: {', '.join(sorted(set(one) ^ set(other)))}",
                hint="after a column was added, use missingColumns=null to write NULL. Rows"
                " captured by pgq.sqltriga have only the changed columns and cannot be merged: use"
                " another trigger",
            )
        return sorted(set().union(*sets)) or list(self.shape.key)

    @property
    def _all(self) -> str:
        return f"pg_temp.londiste_epoch_{self.number}"

    @property
    def _last(self) -> str:
        return f"pg_temp.londiste_last_{self.number}"

    def _key(self) -> list[tuple[int, RelationColumn]]:
        """The columns of the key with their places."""
        return [(n, c) for n, c in enumerate(self.columns) if c.name in self.shape.key]

    def _equal(self, sides: Callable[[int, str], tuple[str, str]]) -> str:
        """Equality of keys by the operators of the table: the session has its user's path."""
        return " and ".join(
            f"{left} operator({quote(c.eq_schema)}.=) {right}"
            for n, c in self._key()
            for left, right in [sides(n, c.name)]
        )

    def _keys(self, prefix: str = "") -> str:
        return ", ".join(f"{prefix}c{n}" for n, _ in self._key())

    def _names(self) -> str:
        return ", ".join(quote(c.name) for c in self.columns)

    def _any(self, statement: str) -> bool:
        with RawCursor(self.conn) as cursor:
            return cursor.execute(statement).fetchone() is not None

    def _do(self, statement: str, parameters: Sequence[object] = ()) -> int:
        with self._without_values(), RawCursor(self.conn) as cursor:
            return cursor.execute(statement, parameters).rowcount

    @contextlib.contextmanager
    def _without_values(self) -> Iterator[None]:
        """Translates errors, without values of rows: Spark shows errors on its pages."""
        try:
            with translated(f"table {self.shape.name}, {whereabouts(self.conn)}", Values.APART):
                yield
        except LondisteError as error:
            hide_values(error)
            raise error from None


def check_condition(conn: Connection, shape: Relation, names: Sequence[str], where: str) -> None:
    """Raises BadOption unless a condition can be evaluated on rows of a table.

    names -- the columns of the rows; empty: all columns of the table.
    """
    columns = [shape.by_name[name] for name in names] or list(shape.by_name.values())
    values = ", ".join(f"null::{_kind(c)} as {quote(c.name)}" for c in columns)
    try:
        with conn.transaction(force_rollback=True):
            use_own_names(conn)
            try_condition(conn, f"(select {values}) as r", where, end="\n")
    except psycopg.Error as error:
        raise BadOption(
            f"where: condition cannot be evaluated: {server_text(error)}",
            detail=f"columns: {', '.join(c.name for c in columns)}",
            hint="use a condition in SQL over the columns of the rows: .option('where',"
            " \"region = 'north'\")",
        ) from None


def _kind(column: RelationColumn) -> str:
    """Its type; below a domain, as a row that is to be deleted has NULL in all but its key."""
    return column.base_type or column.type_name
