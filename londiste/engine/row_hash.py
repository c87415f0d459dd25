"""SQL for the text of a row and its hashes, by which two databases are compared.

Two rows have the same text if and only if all their values have the same texts.  A row constructor
gives such a text, but the server looks at each character of each value for it.  ``concat_ws`` does
not, and needs 0.6 of the processor time.  It omits NULL, and values can contain the separator.  So
the text of a row has these fields:

    !tff     which values are NULL, only where one is
    4 17     lengths in bytes of texts
    7 1.50   values of types whose texts never contain the separator
    abc …    the texts
    …        the last value; or a row constructor of the values that are left

A value of another type, such as an enum or a type of an extension, can contain the separator: it is
the last field, and if there are several, they are in the row constructor.
"""

from __future__ import annotations

from collections.abc import Sequence

from londiste.db.connection import Connection

#: Seeds of the two hashes of a comparison; what cancels out under one does not under the other.
SEEDS = (0, 7046029254386353131)

#: Forms of a column in the text of a row: its texts have no separator, have any character and a
#: length that costs nothing, or are unknown.
PLAIN, TEXT, OTHER = "plain", "text", "other"

_PLAIN_TYPES = {
    "smallint",
    "integer",
    "bigint",
    "oid",
    "numeric",
    "real",
    "double precision",
    "boolean",
    "bytea",
    "uuid",
    "date",
    "timestamp without time zone",
    "timestamp with time zone",
    "time without time zone",
    "time with time zone",
    "interval",
    "json",
    "jsonb",
    "inet",
    "cidr",
    "macaddr",
    "bit",
    "bit varying",
}
_TEXT_TYPES = {"text", "character varying", "character", "bpchar"}
#: Arguments of a function of PostgreSQL are at most 100.
_MOST = 45


def form_of(type_name: str) -> str:
    """The form of a column of this type, named without its modifier as format_type does."""
    if type_name in _TEXT_TYPES:
        return TEXT
    return PLAIN if type_name.removesuffix("[]") in _PLAIN_TYPES else OTHER


def row_sql(columns: Sequence[str], forms: Sequence[str] = ()) -> str:
    """SQL for the text of a row of these expressions.  Pure.

    forms -- of each column; none: a row constructor.
    """
    by_form = {
        form: [column for column, its in zip(columns, forms, strict=bool(forms)) if its == form]
        for form in (PLAIN, TEXT, OTHER)
    }
    plain, texts, others = by_form.values()
    if not plain or not forms or len(columns) > _MOST:
        return f"row({', '.join(columns)})::text"
    last = [f"row({', '.join(others)})::text"] if len(others) > 1 else others
    measured = texts if last else texts[:-1]
    known = [*plain, *measured]
    nulls = ", ".join(f"{column} is null" for column in known)
    parts = [
        f"case when num_nulls({', '.join(known)}) > 0 then concat('!', {nulls}) end",
        *(f"octet_length({column})" for column in measured),
        *plain,
        *texts,
        *last,
    ]
    return rf"concat_ws(E'\x01', {', '.join(parts)})"


def row_text(conn: Connection, columns: Sequence[str], forms: Sequence[str] = ()) -> str:
    """SQL for the text of a row of these expressions, which is compared and hashed.

    forms -- as in ``row_sql``.
    Its bytes are those of UTF-8, so that databases of different encodings have the same.
    """
    text = row_sql(columns, forms)
    encoding = server_encoding(conn)
    if is_single_byte(encoding):
        # Every byte is a character there, so that nothing is refused or changed.
        text = f"convert_from(convert_to({text}, 'UTF8'), '{encoding}')"
    return f'{text} collate "C"'


def key_hash(conn: Connection, key: Sequence[str]) -> str:
    """SQL for a 64-bit hash of the text of a key."""
    return f"hashtextextended({row_text(conn, key)}, {SEEDS[0]})"


def server_encoding(conn: Connection) -> str:
    """The encoding of the database, in which its texts are hashed."""
    return conn.info.parameter_status("server_encoding") or "UTF8"


def is_single_byte(encoding: str) -> bool:
    """Whether each character is one byte, in a known character set."""
    return encoding.startswith(("LATIN", "ISO_8859", "WIN", "KOI8"))
