"""Ledger of the files that were run in a database.

The ledger ``<schema>.installed_file`` lives in the schema it describes, so dropping the schema
leaves no ghost.  The row ``component.toml`` stands for the component: its version is the
version of the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import psycopg
from psycopg import sql

from londiste.db.connection import Connection
from londiste.db.queries import fetch, translation
from londiste.install import owners

#: The row of the ledger that stands for the component as a whole.
COMPONENT = "component.toml"

#: Class of the server's errors about rights, names and kinds of objects.
_REFUSED = "42"

# Default privileges are for the tables of applications.  Revoked with the creation only, because
# grants that somebody makes later stay.
_LEDGER = """\
do $londiste$
declare
    v_role text;
begin
    if to_regclass({name}) is null then
        create table {schema}.installed_file (
            path text primary key,
            sha256 text not null,
            version text not null,
            installed_at timestamptz not null default pg_catalog.now(),
            installed_by text not null default session_user
        );
        for v_role in
            select distinct case a.grantee when 0 then 'public' else a.grantee::regrole::text end
            from pg_class as c, aclexplode(c.relacl) as a
            where c.oid = {name}::regclass and a.grantee <> c.relowner
        loop
            execute format('revoke all on {schema}.installed_file from %s cascade', v_role);
        end loop;
        grant select on {schema}.installed_file to public;
    end if;
end
$londiste$;
comment on table {schema}.installed_file is
    'files that were run in this schema, and those whose effect it had from the start';
comment on column {schema}.installed_file.path is
    'file within the component; component.toml stands for the component itself';
comment on column {schema}.installed_file.sha256 is 'checksum of the text that was run';
comment on column {schema}.installed_file.version is 'version of the component at that time';
"""


class LedgerEntry(NamedTuple):
    """One row of the ledger, without when and by whom."""

    sha256: str
    version: str


@dataclass(frozen=True)
class Installed:
    """The installed part of one component in one database."""

    schema_exists: bool = False
    extension: str | None = None
    has_ledger: bool = False
    names: frozenset[str] = frozenset()
    files: Mapping[str, LedgerEntry] = field(default_factory=dict)

    @property
    def version(self) -> str | None:
        """Version of the schema; None if it is not installed by Londiste."""
        entry = self.files.get(COMPONENT)
        return entry.version if entry else None

    @property
    def foreign(self) -> bool:
        """The schema has contents of another origin."""
        return self.schema_exists and not self.has_ledger and bool(self.names)

    @property
    def rowless(self) -> bool:
        """The schema is a dump without rows: no queue works in it."""
        return self.has_ledger and not self.files and len(self.names) > 1


def read(conn: Connection, schema: str) -> Installed:
    """The installed part of component ``schema``; changes nothing."""
    return read_all(conn, [schema])[schema]


def read_all(conn: Connection, schemas: Iterable[str]) -> dict[str, Installed]:
    """The installed parts of several components, in their order; none of their code is run.

    Raises NotTrusted if a ledger cannot be read and another role could have made it.
    """
    states = {one["name"]: one for one in fetch(conn, "install_state", schemas=list(schemas))}
    files = _files(conn, [name for name, state in states.items() if state["has_ledger"]])
    return {
        name: Installed(
            schema_exists=state["schema_exists"],
            extension=state["extension"],
            has_ledger=state["has_ledger"],
            names=frozenset(state["names"]),
            files=files.get(name, {}),
        )
        for name, state in states.items()
    }


def _files(conn: Connection, schemas: Sequence[str]) -> dict[str, dict[str, LedgerEntry]]:
    """The rows of these ledgers, whoever owns them.

    COPY reads a table without planner and rules, and refuses views.  With row_security off, the
    server refuses policies.  So nothing that the owner may define runs, however late it is defined.
    """
    files: dict[str, dict[str, LedgerEntry]] = {}
    schema = ""
    try:
        if schemas:
            # Rolled back, the setting is as before.
            with conn.transaction(force_rollback=True):
                conn.execute("set local row_security = off")
                for schema in schemas:
                    with conn.cursor().copy(
                        sql.SQL("copy {} (path, sha256, version) to stdout").format(
                            sql.Identifier(schema, "installed_file")
                        )
                    ) as copy:
                        files[schema] = {
                            str(path): LedgerEntry(*entry) for path, *entry in copy.rows()
                        }
    except psycopg.Error as error:
        # Not those that pass: the lock of an upgrade, a lost connection.
        if (error.sqlstate or "").startswith(_REFUSED):
            owners.require(conn, [schema], installing=True)
        raise translation(error, conn) from error
    return files


def statement(schema: str) -> sql.Composed:
    """The statements of ``create``, for a script."""
    name = sql.Identifier(schema, "installed_file")
    return sql.SQL(_LEDGER).format(
        schema=sql.Identifier(schema), name=sql.Literal(name.as_string())
    )


def create(conn: Connection, schema: str) -> None:
    """Creates the ledger if it does not exist; the schema must exist."""
    conn.execute(statement(schema))


def remember(conn: Connection, schema: str, files: Mapping[str, LedgerEntry]) -> None:
    """Records these files with these texts as part of the schema."""
    conn.execute(
        sql.SQL(
            "insert into {} as f (path, sha256, version)"
            " select * from unnest(%s::text[], %s::text[], %s::text[])"
            " on conflict (path) do update set sha256 = excluded.sha256,"
            " version = excluded.version, installed_at = excluded.installed_at,"
            " installed_by = excluded.installed_by"
        ).format(sql.Identifier(schema, "installed_file")),
        [
            list(files),
            [entry.sha256 for entry in files.values()],
            [entry.version for entry in files.values()],
        ],
    )


def forget(conn: Connection, schema: str, paths: Sequence[str]) -> None:
    """Deletes the records of these files."""
    conn.execute(
        sql.SQL("delete from {} where path = any(%s)").format(
            sql.Identifier(schema, "installed_file")
        ),
        [list(paths)],
    )
