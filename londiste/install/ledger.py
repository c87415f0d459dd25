"""Ledger of the files that were run in a database.

The ledger ``<schema>.installed_file`` lives in the schema it describes, so dropping the schema
leaves no ghost.  The row ``component.toml`` stands for the component: its version is the
version of the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from psycopg import sql

from londiste.db.connection import Connection
from londiste.db.queries import fetch, translated

#: The row of the ledger that stands for the component as a whole.
COMPONENT = "component.toml"

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
    """The installed parts of several components, in their order, by two queries."""
    states = {one["name"]: one for one in fetch(conn, "install_state", schemas=list(schemas))}
    files: dict[str, dict[str, LedgerEntry]] = {name: {} for name in states}
    entries = [
        sql.SQL("select {}, path, sha256, version from {}").format(
            sql.Literal(name), sql.Identifier(name, "installed_file")
        )
        for name, state in states.items()
        if state["has_ledger"]
    ]
    if entries:
        with translated(conn):
            for name, path, *entry in conn.execute(sql.SQL(" union all ").join(entries)):
                files[name][path] = LedgerEntry(*entry)
    return {
        name: Installed(
            schema_exists=state["schema_exists"],
            extension=state["extension"],
            has_ledger=state["has_ledger"],
            names=frozenset(state["names"]),
            files=files[name],
        )
        for name, state in states.items()
    }


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
