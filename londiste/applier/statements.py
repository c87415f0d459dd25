"""SQL statements that write rows: one statement takes any number of rows as one JSON parameter.

Images stay text: ``json_to_recordset`` hands every string to the input function of its column's
type, so nothing is rounded or formatted anew, and only columns that the image has are named.
Columns of type json and jsonb are the exception, a string there would become a JSON string; they
are read as text and cast.  The parameter is ``$1`` in every statement: objects with commas between.
"""

# ruff: noqa: S608 - every name passes through quote(), every type comes from format_type(), every
# value is in the parameter

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from londiste.applier.plan import RowSet, Verb
from londiste.db.names import quote
from londiste.db.relation import Folding, Relation, RelationColumn

#: The parameter: objects separated by commas.  The client would have to copy them for the brackets.
PARAMETER = "$1::text"
_DOCUMENT = f"('[' || {PARAMETER} || ']')::json"
#: Characters of one parameter.  The server takes 1 GB of a text, but the client has it three times:
#: joined, encoded and in the buffer of the connection.
SLICE = 512 << 10

#: Types whose rows are visited in the order of the key: cheap to compare, and ordered as their
#: index is.  Neighbours in the index are then found one after the other, which is a quarter of the
#: cost of an update whose keys come at random, and costs next to nothing where they do not.
_ORDERED = frozenset({"smallint", "integer", "bigint", "uuid", "date"}) | {
    f"timestamp {zone} time zone" for zone in ("with", "without")
}


def payload(image: Mapping[str, str | None]) -> str:
    """One row, as the parameter of the statements below."""
    return json.dumps(image, ensure_ascii=False, separators=(",", ":"))


def payloads(rows: RowSet, limit: int = SLICE) -> Iterator[tuple[str, int]]:
    """The rows, as parameters of about ``limit`` characters at most; each with its number of rows.

    A single row may be longer.
    """
    texts: list[str] = []
    count = size = 0
    for text in rows.lines:
        if size + len(text) > limit and texts:
            yield ",".join(texts), count
            texts.clear()
            count = size = 0
        texts.append(text)
        size += len(text)
        count += 1
    for text in rows.packs:
        if size + len(text) > limit and texts:
            yield ",".join(texts), count
            texts.clear()
            count = size = 0
        texts.append(text.replace("\n", ","))
        size += len(text)
        count += text.count("\n") + 1
    if texts:
        yield ",".join(texts), count


def sql_for(shape: Relation, verb: Verb, columns: tuple[str, ...], key: tuple[str, ...]) -> str:
    """The statement for a set of rows.

    Where the shape has a condition, rows that it is not true for leave none here: they are not
    inserted, and a set of one deletes what is there.  Every row counts as hit then.
    """
    if shape.where and verb in {Verb.INSERT, Verb.SET}:
        return _filtered_sql(shape, verb, columns, key)
    if verb is Verb.INSERT:
        return insert_sql(shape, columns)
    if verb is Verb.UPDATE:
        return update_sql(shape, columns, key)
    if verb is Verb.SET:
        return set_sql(shape, columns, key)
    if not key:
        return delete_rows_sql(shape, columns)
    return delete_sql(shape, key)


def insert_sql(shape: Relation, columns: tuple[str, ...]) -> str:
    """INSERT of the given columns; the others get their defaults."""
    chosen = [shape.by_name[name] for name in columns if not shape.by_name[name].generated]
    names = ", ".join(quote(column.name) for column in chosen)
    target = shape.name.quoted + (f" ({names}) overriding system value" if chosen else "")
    values = ", ".join(_value(column) for column in chosen)
    return f"insert into {target} select {values} from {_rows(chosen)}"


def update_sql(shape: Relation, columns: tuple[str, ...], key: tuple[str, ...]) -> str:
    """UPDATE of the columns outside of the key, of the rows with that key.

    A key that is equal with another text (1.0 and 1.00) gets the text of the image.

    An identity column that the server alone may set must have the value of the image already,
    or the row is not hit.  Without a column to set, the statement counts the rows.
    """
    chosen = [shape.by_name[name] for name in columns if not shape.by_name[name].generated]
    read = [*chosen, *(shape.by_name[name] for name in key if shape.by_name[name].generated)]
    others = [column for column in chosen if column.name not in key]
    settable = _settable(chosen, key)
    conditions = [_equal(shape.by_name[name]) for name in key]
    conditions += [_same(column) for column in others if column.identity_always]
    where = " and ".join(conditions)
    if not settable:
        return f"select 1 from {_target(shape)} t join {_rows(read)} on {where} for key share of t"
    assignments = ", ".join(f"{quote(column.name)} = {_value(column)}" for column in settable)
    rows = _rows(read, key)
    return f"update {_target(shape)} t set {assignments} from {rows} where {where}"


def _settable(chosen: list[RelationColumn], key: tuple[str, ...]) -> list[RelationColumn]:
    """The columns that an UPDATE sets: of the key those whose text may differ in equal values."""
    return [
        column
        for column in chosen
        if not column.identity_always
        and (column.name not in key or column.folding is not Folding.TEXT)
    ]


def set_sql(shape: Relation, columns: tuple[str, ...], key: tuple[str, ...]) -> str:
    """UPDATE of the rows with the keys, INSERT of those that are not there; a row for each.

    Needs no unique index on the key, and leaves columns alone that the image does not have.  A row
    with another value of an identity column that the server alone may set is another row: it is
    deleted first, and the row of the image starts anew.
    """
    chosen = [shape.by_name[name] for name in columns if not shape.by_name[name].generated]
    read = [*chosen, *(shape.by_name[name] for name in key if shape.by_name[name].generated)]
    settable = _settable(chosen, key)
    equal = " and ".join(_equal(shape.by_name[name]) for name in key)
    same = _same_identity(chosen, key)
    where = f"{equal} and {same}" if same else equal
    gone = (
        f" gone as (delete from {_target(shape)} t using r where {equal} and not ({same})"
        " returning 1),"
        if same
        else ""
    )
    first = f" and {_FIRST}" if same else ""
    found = f"select 1 from {_target(shape)} t join r on {where} for key share of t"
    if settable:
        assignments = ", ".join(f"{quote(column.name)} = {_value(column)}" for column in settable)
        found = (
            f"update {_target(shape)} t set {assignments} from r where {where}{first} returning 1"
        )
    names = ", ".join(quote(column.name) for column in chosen)
    values = ", ".join(_value(column) for column in chosen)
    return (
        f"with r as materialized (select * from {_rows(read, key)}),{gone} u as ({found}),"
        f" i as (insert into {shape.name.quoted} ({names}) overriding system value"
        f" select {values} from r where not exists"
        f" (select from {_target(shape)} t where {where}){first} returning 1)"
        " select 1 from u union all select 1 from i"
    )


def _same_identity(chosen: Sequence[RelationColumn], key: Sequence[str]) -> str:
    """The condition that identity columns that no UPDATE may set have their values already."""
    return " and ".join(_same(c) for c in chosen if c.identity_always and c.name not in key)


def _filtered_sql(
    shape: Relation, verb: Verb, columns: tuple[str, ...], key: tuple[str, ...]
) -> str:
    """INSERT or SET of the rows that the condition is true for; the others are not here after it.

    The rows that are not kept any more go first, so that others may have their unique values.
    """
    chosen = [shape.by_name[name] for name in columns if not shape.by_name[name].generated]
    read = [*chosen, *(shape.by_name[name] for name in key if shape.by_name[name].generated)]
    # As the source has them: texts of json columns become documents for the condition.
    typed = ", ".join(f"{_value(column)} as {quote(column.name)}" for column in chosen)
    kept = "kept"
    while kept in columns or kept in key:
        kept += "_"
    rows = (
        f"with r as materialized (select r.*, k.{kept} from {_rows(read, key)} cross join lateral"
        f" (select ({shape.where}) is true as {kept} from (select {typed}) as image) as k)"
    )
    names = ", ".join(quote(column.name) for column in chosen)
    values = ", ".join(_value(column) for column in chosen)
    insert = (
        f"insert into {shape.name.quoted} ({names}) overriding system value"
        f" select {values} from r where r.{kept}"
    )
    if verb is Verb.INSERT:
        return (
            f"{rows}, i as ({insert} returning 1)"
            f" select 1 from i union all select 1 from r where not r.{kept}"
        )
    settable = _settable(chosen, key)
    equal = " and ".join(_equal(shape.by_name[name]) for name in key)
    same = _same_identity(chosen, key) or "true"
    where = f"{equal} and {same} and r.{kept}"
    found = f"select 1 from {_target(shape)} t join r on {where} for key share of t"
    if settable:
        assignments = ", ".join(f"{quote(column.name)} = {_value(column)}" for column in settable)
        found = (
            f"update {_target(shape)} t set {assignments} from r where {where} and {_FIRST}"
            " returning 1"
        )
    return (
        f"{rows}, gone as (delete from {_target(shape)} t using r where {equal}"
        f" and not (r.{kept} and {same}) returning 1), u as ({found}),"
        f" i as ({insert} and {_FIRST} and not exists"
        f" (select from {_target(shape)} t where {equal} and {same}) returning 1)"
        f" select 1 from u union all select 1 from i union all select 1 from r where not r.{kept}"
    )


#: True, and known only when the rows that are not kept any more are gone.
_FIRST = "(select count(*) from gone) >= 0"


def delete_sql(shape: Relation, key: tuple[str, ...]) -> str:
    """DELETE of the rows with the keys."""
    columns = [shape.by_name[name] for name in key]
    where = " and ".join(_equal(column) for column in columns)
    return f"delete from {_target(shape)} t using {_rows(columns, key)} where {where}"


def find_sql(shape: Relation, key: Sequence[str]) -> str:
    """The rows with the key, as an array of JSON texts, two at most."""
    columns = [shape.by_name[name] for name in key]
    where = " and ".join(_equal(column) for column in columns)
    return (
        f"select array(select row_to_json(t)::text from {_target(shape)} t join {_rows(columns)}"
        f" on {where} limit 2)"
    )


def delete_rows_sql(shape: Relation, columns: tuple[str, ...]) -> str:
    """DELETE of one row for each of the parameter that is the same in all these columns.

    Values are compared as texts, so that types without equality are no matter, and NULL is NULL.
    Of rows that are the same, as many go as the parameter has.
    """
    chosen = [shape.by_name[name] for name in columns if not shape.by_name[name].generated]
    if not chosen:
        given = f"select 0 as whole, count(*) as many from {_rows(chosen)}"
        whole = "0"
    else:
        # Each value by the output of its type: a cast to text may be code of that type's owner.
        values = ", ".join(map(_value, chosen))
        given = (
            f'select row({values})::text collate "C" as whole, count(*) as many'
            f" from {_rows(chosen)} where {_kept(shape, chosen)} group by 1"
        )
        whole = f'row({", ".join(f"t.{quote(c.name)}" for c in chosen)})::text collate "C"'
    gone = (
        f"delete from {_target(shape)} t using (select f.tableoid, f.ctid from (select t.tableoid,"
        " t.ctid, g.many, row_number() over (partition by g.whole) as nr"
        f" from {_target(shape)} t join g on g.whole = {whole}) as f where f.nr <= f.many) as d"
        " where t.tableoid = d.tableoid and t.ctid = d.ctid"
    )
    if not shape.where:
        return f"with g as materialized ({given}) {gone}"
    # Rows that are not kept here count as hit.
    return (
        f"with g as materialized ({given}), gone as ({gone} returning 1) select 1 from gone"
        f" union all select 1 from {_rows(chosen)} where not {_kept(shape, chosen)}"
    )


def _kept(shape: Relation, columns: Sequence[RelationColumn]) -> str:
    """Whether a row of the parameter is kept here."""
    if not shape.where:
        return "true"
    typed = ", ".join(f"{_value(column)} as {quote(column.name)}" for column in columns)
    return f"(select ({shape.where}) is true from (select {typed}) as image)"


def take_sql(shape: Relation, others: Sequence[str], key: tuple[str, ...]) -> str:
    """DELETE of the rows with the keys: an array of their number and other columns of one of them.

    The values are the texts that the server writes for them.
    """
    # format() calls the output function, and no cast that somebody may have created.
    texts = ", ".join(
        f"case num_nulls(g.{quote(name)}) when 0 then format('%s', g.{quote(name)}) end"
        for name in others
    )
    names = ", ".join(f"t.{quote(name)}" for name in others) or "1"
    return (
        f"with g as ({delete_sql(shape, key)} returning {names})"
        f" select array[(select count(*)::text from g)]"
        f" || (select array[{texts}]::text[] from g limit 1)"
    )


def same_key_sql(shape: Relation, key: tuple[str, ...], image: str) -> str:
    """The place, from 0 on, of the key in ``image`` among those of the parameter, as an array.

    image -- SQL for a text like ``PARAMETER``.
    """
    columns = [shape.by_name[name] for name in key]
    place = "place"
    while place in key:
        place += "_"
    names = ", ".join(quote(name) for name in key)
    kinds = ", ".join(f"{quote(column.name)} {column.type_name}" for column in columns)
    where = " and ".join(_equal(column) for column in columns)
    # Out of the table comes no row, but the collation of its columns.
    return (
        f"select array(select t.{place}::text from (select {names}, 0::bigint as {place}"
        f" from {_target(shape)} where false union all select {names}, {place} - 1 from rows from"
        f" (json_to_recordset(('[' || $1::text || ']')::json) as ({kinds})) with ordinality"
        f" as r({names}, {place})) as t, json_to_recordset(('[' || {image}::text || ']')::json)"
        f" as r({kinds}) where {where} limit 1)"
    )


def kept_sql(shape: Relation, where: str, columns: Sequence[str]) -> str:
    """Whether a condition is true for each of the rows: an array in their order."""
    chosen = [shape.by_name[name] for name in columns if not shape.by_name[name].generated]
    kinds = ", ".join(f"{quote(c.name)} {'text' if c.as_text else c.type_name}" for c in chosen)
    names = ", ".join(quote(column.name) for column in chosen)
    place = "place"
    while place in columns:
        place += "_"
    typed = ", ".join(f"{_value(column)} as {quote(column.name)}" for column in chosen)
    return (
        f"select array_agg(k.kept::text order by r.{place})"
        f" from rows from (json_to_recordset({_DOCUMENT}) as ({kinds}))"
        f" with ordinality as r({names}, {place}) cross join lateral"
        f" (select ({where}) is true as kept from (select {typed}) as image) as k"
    )


def truncate_sql(shapes: Iterable[Relation]) -> str:
    """TRUNCATE of all the tables at once, so that foreign keys among them are no obstacle."""
    return "truncate " + ", ".join(_target(shape) for shape in shapes)


def delete_all_sql(shape: Relation) -> str:
    """DELETE of every row, for a table that TRUNCATE refuses because others point at it."""
    return f"delete from {_target(shape)}"


def _target(shape: Relation) -> str:
    """Events of a table are about that table, not about those that inherit from it."""
    return shape.name.quoted if shape.partitioned else f"only {shape.name.quoted}"


def _rows(columns: Sequence[RelationColumn], key: Sequence[str] = ()) -> str:
    """The rows of the parameter as ``r``; those of ``key`` come in its order, if that is cheap."""
    definitions = ", ".join(
        f"{quote(column.name)} {'text' if column.as_text else column.type_name}"
        for column in columns
    )
    if not definitions:
        # a row without columns is still a row
        return f"json_array_elements({_DOCUMENT}) r"
    rows = f"json_to_recordset({_DOCUMENT}) as r({definitions})"
    types = {column.name: column.type_name for column in columns}
    ordered = list(itertools.takewhile(lambda name: types.get(name) in _ORDERED, key))
    if not ordered:
        return rows
    return f"(select * from {rows} order by {', '.join(map(quote, ordered))}) as r"


def _value(column: RelationColumn) -> str:
    value = f"r.{quote(column.name)}"
    if column.byte_text:
        return f"({_byte(column, value)})::{column.type_name}"
    return f"{value}::{column.type_name}" if column.json_text else value


def _byte(column: RelationColumn, value: str) -> str:
    """A "char" for a server before 15, from the text that later ones write: \\ooo above 127."""
    kind = column.base_type or column.type_name
    if kind.endswith("[]"):
        # Refused, by an error that shows no value.
        two = "chr(92) || chr(92) || chr(92) || chr(92)"
        lost = f"(left({value}, 0) || 'a value above 127 needs PostgreSQL 15')"
        return f"case when {value} ~ ({two} || '[0-7]{{3}}') then {lost} else {value} end::{kind}"
    digits = [f"substr({value}, {place}, 1)::int4" for place in (2, 3, 4)]
    number = f"{digits[0]} * 64 + {digits[1]} * 8 + {digits[2]} - 256"
    escaped = f"length({value}) = 4 and left({value}, 1) = chr(92)"
    return f"case when {escaped} then ({number})::{kind} else {value}::{kind} end"


def _equal(column: RelationColumn) -> str:
    equal = f"operator({quote(column.eq_schema)}.=)"
    kind = f"::{column.base_type}" if column.base_type else ""
    return f"t.{quote(column.name)}{kind} {equal} {_value(column)}{kind}"


def _same(column: RelationColumn) -> str:
    return f"t.{quote(column.name)} is not distinct from {_value(column)}"
