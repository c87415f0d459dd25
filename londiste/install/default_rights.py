"""Default privileges of the installing role, taken from the objects that an installer creates.

``alter default privileges grant insert on tables to app`` is for the tables of an application.  On
those of Londiste it would make ``app`` an administrator of all nodes.  Explicit grants on objects
that exist before an upgrade stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from psycopg import sql

from londiste.db.connection import Connection
from londiste.db.queries import records, tuples
from londiste.install import owners

# What has rights of its own, in these schemas.  Indexes and the types of rows have none.
_OBJECTS = """
            select 'n' || n.oid as id, 'schema' as kind, quote_ident(n.nspname) as name,
                n.nspacl as acl, n.nspowner as owner
            from pg_namespace as n
            where n.nspname = any ({schemas})
            union all
            select 'c' || c.oid, case c.relkind when 'S' then 'sequence' else 'table' end,
                format('%I.%I', n.nspname, c.relname), c.relacl, c.relowner
            from pg_class as c
            join pg_namespace as n on n.oid = c.relnamespace
            where n.nspname = any ({schemas}) and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
            union all
            select 'p' || p.oid, 'routine', format('%I.%I(%s)', n.nspname, p.proname,
                pg_get_function_identity_arguments(p.oid)), p.proacl, p.proowner
            from pg_proc as p
            join pg_namespace as n on n.oid = p.pronamespace
            where n.nspname = any ({schemas})
"""

_NOTE = """
do $londiste$
begin
    perform set_config('londiste.known_objects', coalesce((
        select string_agg(o.id, ',') from ({objects}) as o), ''), true);
end
$londiste$;
"""

# Before the declared rights are granted.  An upgrade has already granted those on new sequences of
# queues.
_REVOKE = """
do $londiste$
declare
    v_statement text;
begin
    for v_statement in
        select format('revoke all on %s %s from %s cascade', o.kind, o.name,
            case a.grantee when 0 then 'public' else a.grantee::regrole::text end)
        from ({objects}) as o
        cross join aclexplode(o.acl) as a
        where a.grantee <> o.owner
            and o.id not in (
                select k from unnest(string_to_array(
                    current_setting('londiste.known_objects'), ',')) as k)
            and not (o.kind = 'sequence' and o.name ~ '^pgq[.]event_[0-9]+_'
                and a.grantee = 0 and a.privilege_type = 'SELECT')
        group by o.kind, o.name, a.grantee
    loop
        execute v_statement;
    end loop;
end
$londiste$;
"""


def _filled(text: str, schemas: Sequence[str]) -> sql.Composed:
    names = sql.SQL("array[{}]::name[]").format(sql.SQL(", ").join(map(sql.Literal, schemas)))
    return sql.SQL(text).format(objects=sql.SQL(_OBJECTS).format(schemas=names))


def noting(schemas: Sequence[str]) -> sql.Composed:
    """The statement that notes the objects of these schemas, before an installer creates others."""
    return _filled(_NOTE, schemas)


def revoking(schemas: Sequence[str]) -> sql.Composed:
    """The statement that takes all rights on other objects of these schemas from other roles.

    In the same transaction as that of ``noting``.
    """
    return _filled(_REVOKE, schemas)


def note(conn: Connection, schemas: Sequence[str]) -> None:
    """Executes the statement of ``noting``."""
    conn.execute(noting(schemas))


def revoke(conn: Connection, schemas: Sequence[str]) -> None:
    """Executes the statement of ``revoking``."""
    conn.execute(revoking(schemas))


class Excess(NamedTuple):
    """A role, no administrator, that can write what is for administrators.

    role -- quoted; public: every role.  statements -- that revoke it.
    """

    role: str
    relations: int
    routines: int
    statements: list[str]

    @property
    def what(self) -> str:
        """What it can do, as a sentence."""
        who = "every role" if self.role == "public" else f"role {self.role}"
        tables = "table" if self.relations == 1 else "tables"
        functions = "function" if self.routines == 1 else "functions"
        can = [
            *([f"write to {self.relations} internal {tables}"] if self.relations else []),
            *([f"call {self.routines} {functions} of administrators"] if self.routines else []),
        ]
        return f"{who} can {' and '.join(can)}"

    @property
    def remedy(self) -> str:
        """The statements in one line, to paste."""
        return "; ".join(self.statements)

    @property
    def why(self) -> str:
        """Why that is bad."""
        return (
            "it is no member of pgq_admin, but can change rows or have scripts executed on all"
            " subscribers; default privileges of the installing role often cause that"
        )


def find(conn: Connection) -> tuple[Excess, ...]:
    """The roles with rights that they should not have, by name."""
    _, readable = tuples(conn, "relation_exists", relation="pgq.queue")[0]
    nodes = [name for (name,) in tuples(conn, "event_tables_of_nodes")] if readable else []
    return tuple(records(conn, Excess, "excess_rights", schemas=list(owners.SCHEMAS), nodes=nodes))
