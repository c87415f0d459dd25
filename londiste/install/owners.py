"""Owners of the schemas: who could replace the functions that an installer or a daemon calls.

The owner of a schema may drop what another role has created in it, and create it again.  So code
in a schema of a stranger is code of the stranger, whoever has installed it.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from londiste.db.connection import Connection, whereabouts
from londiste.db.queries import query, translated
from londiste.db.sessions import schema_guard
from londiste.db.sessions.schema_guard import SCHEMAS as SCHEMAS
from londiste.db.sessions.schema_guard import Doubt

#: Schemas of a component beside the one of its name.  londiste_apply is guarded where it is used.
_BESIDE = {"londiste": ("londiste_capture",)}

#: With those in which Londiste calls no function, but keeps state or objects of its own.
_RESERVED = frozenset({*SCHEMAS, "londiste_apply", "information_schema"})


def is_reserved(schema: str) -> bool:
    """Whether a schema is the server's or Londiste's own, so that it has no tables of users."""
    return schema in _RESERVED or schema.startswith("pg_")


def of_components(names: Sequence[str]) -> list[str]:
    """The schemas of these components."""
    return [schema for name in names for schema in (name, *_BESIDE.get(name, ()))]


def find(
    conn: Connection, schemas: Sequence[str] = SCHEMAS, *, installing: bool = False
) -> list[Doubt]:
    """The doubts about these schemas, the worst first; schemas that do not exist have none.

    installing -- the session's role is about to install: it trusts nobody who has not its rights.
        Otherwise a role without superuser's rights trusts whom the first installer could trust.
    """
    with translated(conn):
        return schema_guard.find(conn, schemas, installing=installing)


def require(
    conn: Connection, schemas: Sequence[str] = SCHEMAS, *, installing: bool = False
) -> None:
    """Raises NotTrusted with the first doubt about these schemas."""
    for doubt in find(conn, schemas, installing=installing):
        raise doubt.error(whereabouts(conn))


def statement(schemas: Sequence[str]) -> sql.Composed:
    """The query of ``find`` for an installer, for a script."""
    text = query("schema_doubts").replace("{", "{{").replace("}", "}}")
    names = sql.SQL("array[{}]").format(sql.SQL(", ").join(map(sql.Literal, schemas)))
    return sql.SQL(
        text.replace("%(schemas)s", "{schemas}").replace("%(installing)s", "true")
    ).format(schemas=names)
