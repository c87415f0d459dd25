"""Rights in Londiste's schemas equal those that ``sql/rights.tsv`` declares.

A line of it: an object, a right, and the roles that have it; what follows from memberships
(``MEMBERS``) and from PUBLIC is left out.  ``definer`` with ``owner``: the function runs with the
rights of its owner.  An object or a right without a line is nobody's but the
owner's.  ``python -m tests.sql.rights.test_rights`` prints the lines of a new database, to compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from londiste.db.connection import Connection
from tests.fixtures.cluster import Database, create_database, start_server

DECLARED = Path(__file__).parents[3] / "sql" / "rights.tsv"
SCHEMAS = ["pgq", "pgq_node", "pgq_coop", "pgq_ext", "londiste", "londiste_capture"]

#: Each role and those that it is a member of, directly or not.
MEMBERS: Mapping[str, tuple[str, ...]] = {
    "pgq_reader": (),
    "pgq_writer": (),
    "pgq_admin": ("pgq_reader", "pgq_writer"),
    "londiste_reader": ("pgq_reader",),
    "londiste_writer": ("pgq_admin", "pgq_reader", "pgq_writer"),
}
STRANGER = "stranger"

Rights = dict[tuple[str, str], set[str]]

#: Every right that a role (or PUBLIC, as any stranger has it) has on every object.
_RIGHTS = """
with roles as (
    select r.rolname::text as role from pg_roles r where r.rolname = any (%(roles)s)
), spaces as (
    select n.oid, n.nspname::text as name from pg_namespace n where n.nspname = any (%(schemas)s)
), rights as (
    select 'schema ' || s.name as object, lower(p.name) as what, r.role,
        has_schema_privilege(r.role, s.oid, p.name) as has
    from spaces s, (values ('USAGE'), ('CREATE')) p (name), roles r
    union all
    select s.name || '.' || c.relname, lower(p.name), r.role,
        case when c.relkind = 'S' then has_sequence_privilege(r.role, c.oid, p.name)
            else has_table_privilege(r.role, c.oid, p.name) end
    from spaces s
        join pg_class c on c.relnamespace = s.oid and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
        cross join (values ('SELECT', true, true), ('INSERT', true, false), ('UPDATE', true, true),
            ('DELETE', true, false), ('TRUNCATE', true, false), ('REFERENCES', true, false),
            ('TRIGGER', true, false), ('USAGE', false, true)) p (name, tables, sequences)
        cross join roles r
    where case when c.relkind = 'S' then p.sequences else p.tables end
    union all
    select s.name || '.' || c.relname || '.' || a.attname, lower(p.name) || ' column', r.role,
        has_column_privilege(r.role, c.oid, a.attnum, p.name)
            and not has_table_privilege(r.role, c.oid, p.name)
    from spaces s
        join pg_class c on c.relnamespace = s.oid and c.relkind in ('r', 'p', 'v', 'm', 'f')
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        cross join (values ('SELECT'), ('INSERT'), ('UPDATE'), ('REFERENCES')) p (name)
        cross join roles r
    union all
    select s.name || '.' || p.proname || '(' || coalesce((
            select string_agg(format_type(t, null), ',' order by nr)
            from unnest(p.proargtypes) with ordinality as x (t, nr)), '') || ')',
        'execute', r.role, has_function_privilege(r.role, p.oid, 'execute')
    from spaces s join pg_proc p on p.pronamespace = s.oid cross join roles r
    union all
    select s.name || '.' || p.proname || '(' || coalesce((
            select string_agg(format_type(t, null), ',' order by nr)
            from unnest(p.proargtypes) with ordinality as x (t, nr)), '') || ')',
        'definer', 'owner', p.prosecdef
    from spaces s join pg_proc p on p.pronamespace = s.oid
)
select object, what, role from rights where has order by 1, 2, 3
"""


def effective(conn: Connection, stranger: str) -> Rights:
    """What each role has, by object and right; ``public`` for what a stranger has."""
    found: Rights = {}
    roles = {"roles": [*MEMBERS, stranger], "schemas": SCHEMAS}
    for object, what, role in conn.execute(_RIGHTS, roles).fetchall():
        found.setdefault((object, what), set()).add("public" if role == stranger else role)
    return found


def closed(rights: Rights) -> Rights:
    """The same with what follows from memberships and PUBLIC."""
    every = set(MEMBERS)
    return {
        key: roles
        | (every if "public" in roles else set())
        | {role for role, of in MEMBERS.items() if roles.intersection(of)}
        for key, roles in rights.items()
    }


def reduced(rights: Rights) -> Rights:
    """The same without what follows from memberships and PUBLIC."""
    return {
        key: {"public"}
        if "public" in roles
        else {role for role in roles if not roles.intersection(MEMBERS.get(role, ()))}
        for key, roles in rights.items()
    }


def declared() -> Rights:
    rights: Rights = {}
    for line in DECLARED.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            object, what, roles = line.split("\t")
            assert (object, what) not in rights, line
            rights[object, what] = set(roles.split())
    return rights


def lines(rights: Rights) -> list[str]:
    return [
        f"{object}\t{what}\t{' '.join(sorted(roles))}"
        for (object, what), roles in sorted(reduced(rights).items())
    ]


def _stranger(conn: Connection) -> str:
    """A role that is a member of nothing; it goes with the transaction."""
    conn.execute(f"create role {STRANGER}")
    return STRANGER


def test_everybody_may_do_what_is_declared_and_nothing_else(pgq_db: Database) -> None:
    with pgq_db.connect(autocommit=False) as conn:
        found = effective(conn, _stranger(conn))
        conn.rollback()
    assert lines(found) == lines(closed(declared()))


def test_only_the_owner_creates_objects_in_the_schemas(pgq_db: Database) -> None:
    with pgq_db.connect(autocommit=False) as conn:
        found = effective(conn, _stranger(conn))
        conn.rollback()
    creators = {object: roles for (object, what), roles in found.items() if what == "create"}
    # Nothing is looked up by name in the one for generated functions.
    assert creators == {"schema londiste_capture": {"londiste_writer"}}


def test_the_memberships_are_those_of_the_roles(pgq_db: Database) -> None:
    for role, of in MEMBERS.items():
        found = pgq_db.execute(
            "select r.rolname from pg_roles r where pg_has_role(%s, r.oid, 'usage')"
            " and r.rolname <> %s",
            role,
            role,
        )
        assert {name for (name,) in found} == set(of), role


def _print() -> None:
    with start_server("rights", 18) as server:
        database = create_database(server, pgq=True)
        with database.connect(autocommit=False) as conn:
            print("\n".join(lines(effective(conn, _stranger(conn)))))


if __name__ == "__main__":
    _print()
