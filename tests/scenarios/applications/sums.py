"""Content that both databases must share, read without Londiste's code.

A checksum of all rows of each table in the order of its key, the structure as pg_dump prints it,
numbers of sequences that no row has yet.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter

import psycopg
from psycopg import sql

from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database

OURS = (
    *("pgq", "pgq_ext", "pgq_coop", "pgq_node"),
    *("londiste", "londiste_capture", "londiste_apply"),
)

_SETTINGS = (
    "set timezone = 'UTC'; set datestyle = 'ISO, YMD'; set intervalstyle = 'postgres';"
    " set extra_float_digits = 1; set bytea_output = 'hex'; set search_path = pg_catalog"
)
_TABLES = """
select n.nspname, c.relname,
    array(select a.attname from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attname),
    array(select a.attname from pg_index i join pg_attribute a
            on a.attrelid = c.oid and a.attnum = any(i.indkey)
        where i.indrelid = c.oid and i.indisprimary order by array_position(i.indkey, a.attnum))
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema')
    and n.nspname <> all(%s)
"""
_SEQUENCES = """
select s.oid::regclass::text, t.nspname, c.relname, a.attname
from pg_class s join pg_namespace n on n.oid = s.relnamespace
left join pg_depend d on d.objid = s.oid and d.classid = 'pg_class'::regclass
    and d.deptype in ('a', 'i') and d.refobjsubid > 0
left join pg_class c on c.oid = d.refobjid
left join pg_namespace t on t.oid = c.relnamespace
left join pg_attribute a on a.attrelid = c.oid and a.attnum = d.refobjsubid
where s.relkind = 'S' and n.nspname <> all(%s)
"""
#: What Londiste adds to tables of the application.
_TRIGGERS = re.compile(r"^(CREATE TRIGGER _londiste_|ALTER TABLE .* TRIGGER _londiste_)")
#: Session settings of the dump, and the key with which its text may be restored.
_PASSED_OVER = re.compile(r"^(--|SET |SELECT pg_catalog\.set_config|\\(un)?restrict )")


def checksums(database: Database) -> dict[str, tuple[int, str]]:
    """Of each table of the application: its rows and their checksum."""
    found = {}
    with psycopg.connect(database.dsn) as conn:
        conn.execute(_SETTINGS)
        for schema, name, columns, key in conn.execute(_TABLES, [list(OURS)]).fetchall():
            row = sql.SQL("row({})::text").format(
                sql.SQL(", ").join(sql.Identifier(c) for c in columns)
            )
            order = sql.SQL(", ").join(
                sql.SQL('{}::text collate "C"').format(sql.Identifier(k)) for k in key
            )
            count, text = conn.execute(
                sql.SQL(
                    "select count(*), md5(coalesce(string_agg(md5({}), '' order by {}), ''))"
                    " from {}"
                ).format(row, order if key else row, sql.Identifier(schema, name))
            ).fetchall()[0]
            found[f"{schema}.{name}"] = (count, text)
    return found


def dump(database: Database, server: Cluster) -> str:
    """What ``pg_dump -s`` prints, but for our schemas.

    server -- whose pg_dump, for both sides: that of the later release.
    """
    return _program(server, "pg_dump", "-s", *(f"--exclude-schema={s}" for s in OURS), database.dsn)


def restore(text: str, database: Database, server: Cluster) -> None:
    """Makes in an empty database what a dump says."""
    _program(server, "psql", "-qX", "-v", "ON_ERROR_STOP=1", "-d", database.dsn, text=text)


def structure(database: Database, server: Cluster) -> Counter[str]:
    """The statements of the dump but for our triggers."""
    statements: Counter[str] = Counter()
    for block in dump(database, server).split("\n\n"):
        lines = [line for line in block.splitlines() if not _PASSED_OVER.match(line)]
        text = "\n".join(lines).strip()
        if text and not _TRIGGERS.match(text):
            statements[text] += 1
    return statements


def _program(server: Cluster, name: str, *arguments: str, text: str | None = None) -> str:
    done = subprocess.run(
        [server.program(name), *arguments],
        env=server.environment(),
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_same_structure(here: Counter[str], there: Counter[str]) -> None:
    """The same statements on both sides."""
    missing, surplus = here - there, there - here
    assert not missing and not surplus, (
        f"missing: {list(missing)[:5]}\ntoo many: {list(surplus)[:5]}"
    )


def assert_same_rows(here: Database, there: Database, tables: int) -> None:
    """Every table has the same rows; there are at least so many tables."""
    one, other = checksums(here), checksums(there)
    assert len(one) >= tables
    differ = {t: (one.get(t), other.get(t)) for t in one.keys() | other.keys()}
    differ = {t: pair for t, pair in differ.items() if pair[0] != pair[1]}
    assert not differ, differ


def assert_sequences_go_on(root: Database, follower: Database) -> None:
    """Both sides have the same sequences; their next numbers are behind those of all rows.

    Those of no column: the follower is not behind the root.
    """
    numbers = [_next_numbers(database) for database in (root, follower)]
    assert numbers[0].keys() == numbers[1].keys()
    for name, (free, number) in numbers[0].items():
        assert not free or number <= numbers[1][name][1], name


def _next_numbers(database: Database) -> dict[str, tuple[bool, int]]:
    """Of each sequence whether it is of no column, and its next number, which no row has."""
    found = {}
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        for name, schema, table, column in conn.execute(_SEQUENCES, [list(OURS)]).fetchall():
            ((number,),) = conn.execute("select nextval(%s)", [name]).fetchall()
            found[name] = (table is None, number)
            if table is None:
                continue
            ((last,),) = conn.execute(
                sql.SQL("select coalesce(max({}), 0) from {}").format(
                    sql.Identifier(column), sql.Identifier(schema, table)
                )
            ).fetchall()
            assert number > last, f"{name} of {database.name} gives {number}, {last} is taken"
    assert len(found) > 10
    return found
