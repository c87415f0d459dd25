r"""Installation script: all SQL as one script for psql.

For change processes that review SQL.  The script decides in the database what ``plan`` decides
in Python, from the same list of files, so it serves new, older and up-to-date
databases; run twice, it changes nothing the second time.  psql's ``\if`` skips the files that
need not run; ON_ERROR_STOP and a transaction per component make each all or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from psycopg import sql

from londiste.install import default_rights, ledger, locks, owners, source
from londiste.install.apply import INSTALL_LOCK, WAIT_FOR_INSTALLER, WAIT_FOR_TABLE
from londiste.install.ledger import COMPONENT
from londiste.install.source import Component, FileKind, SourceFile, version_key


def script(components: Sequence[str] | None = None, *, root: Path | None = None) -> str:
    """The script for the components (default: all) and what they require.

    ``psql -v after=1`` also runs the upgrades that break programs of the previous release.
    """
    chosen = source.select(source.load(root), components)
    body = "".join(part + "\n" for component in chosen for part in _component(component))
    return _HEAD + body + "\\o\n"


_HEAD = r"""-- Installs or upgrades; running it again changes nothing.
--   psql -X -d DATABASE -f THIS_FILE
-- With  -v after=1  when no program of the previous release runs any more.
\set ON_ERROR_STOP on
\set QUIET on
-- Results of files are of no interest; errors are shown all the same.
\o /dev/null
\if :{?after}
\else
\set after 0
\endif
"""

_BEGIN = f"""
begin;
set local client_min_messages = warning;
set local search_path = pg_catalog, pg_temp;
set local check_function_bodies = off;
set local row_security = off;
set local standard_conforming_strings = on;
set local escape_string_warning = off;
set local quote_all_identifiers = off;
set local lock_timeout = '{WAIT_FOR_INSTALLER}';
do $londiste$ begin perform pg_advisory_xact_lock({INSTALL_LOCK}); end $londiste$;
set local lock_timeout = '{WAIT_FOR_TABLE}';
"""

# What the database has: refused when it is not ours, else copied from the ledger.
_READ = """
create temp table londiste_ledger (path text, sha256 text, version text) on commit drop;
do $londiste$
declare
    v_extension text;
begin
    select e.extname into v_extension
    from pg_extension as e
    where e.extname = {schema} or exists (
        select from pg_depend as d
        join pg_namespace as n on n.oid = d.objid and n.nspname = {schema}
        where d.classid = 'pg_namespace'::regclass and d.deptype = 'e'
            and d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid);
    if found then
        raise exception using errcode = 'LD200',
            message = format('schema %s belongs to the extension %s', {schema}, v_extension),
            hint = 'adopt it with its rows and triggers: londiste install --adopt';
    end if;
    if exists (
        select from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname = {schema} and c.relname = 'installed_file' and c.relkind = 'r'
    ) then
        execute format('insert into pg_temp.londiste_ledger'
            ' select path, sha256, version from %I.installed_file', {schema});
    elsif exists (
        select from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname = {schema}
    ) or exists (
        select from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
        where n.nspname = {schema}
    ) then
        raise exception using errcode = 'LD200',
            message = format('schema %s was not made by londiste install', {schema}),
            hint = format('use another database, or drop the schema first: DROP SCHEMA %I CASCADE',
                {schema});
    end if;
end
$londiste$;
"""

# Before the first look, and after schema.sql: another role may have made the schema meanwhile.
_OWNERS = """
do $londiste$
declare
    v_doubt record;
begin
    for v_doubt in
{doubts}
    loop
        raise exception using errcode = 'LD200', message = v_doubt.message,
            detail = v_doubt.detail, hint = v_doubt.hint;
    end loop;
end
$londiste$;
"""

# The same decisions as plan.plan(), one row per file.
_PLAN = """
create temp table londiste_plan on commit drop as
with file (path, kind, sha256, release) as (
    values
        {files}
), has as (
    select
        l.version,
        array[m[1]::int, m[2]::int, coalesce(m[3], '0')::int,
            case m[4] when 'dev' then 0 when 'a' then 1 when 'b' then 2 when 'rc' then 3
                else 4 end,
            coalesce(m[5], '0')::int] as key
    from pg_temp.londiste_ledger as l,
        regexp_match(l.version, '^(\\d+)\\.(\\d+)(?:\\.(\\d+))?(?:\\.?(dev|a|b|rc)(\\d+))?$') as m
    where l.path = {component_row}
), seen as (
    select
        f.*,
        l.path is not null as known,
        l.sha256 is not distinct from f.sha256 as equal,
        has.version is null as is_new,
        has.version,
        has.key
    from file as f
    left join pg_temp.londiste_ledger as l on l.path = f.path
    left join has on true
), decided as (
    select
        s.*,
        case s.kind
            when 'table' then s.is_new
            when 'upgrade' then not s.is_new and not s.known
            when 'after' then not s.is_new and not s.known and (
                :'after'::boolean or (s.key < {own_key} and s.release <= s.key))
            when 'component' then false
            else not s.equal
        end as run
    from seen as s
)
select
    d.path, d.kind, d.sha256, d.version, d.key, d.known, d.equal, d.is_new,
    d.run or (d.kind = 'grants' and bool_or(d.run) over ()) as run,
    case d.kind
        when 'table' then not d.equal
        when 'upgrade' then d.is_new
        when 'after' then d.is_new
        when 'component' then not d.equal or d.version <> {version}
        else false
    end as note
from decided as d;

do $londiste$
declare
    v_file record;
begin
    for v_file in select * from pg_temp.londiste_plan order by path loop
        if v_file.key > {own_key} then
            raise exception using errcode = 'LD200',
                message = format('schema %s has version %s, newer than %s of this script',
                    {schema}, v_file.version, {version}),
                hint = 'upgrade the program, then write the script again';
        elsif v_file.kind in ('upgrade', 'after') and v_file.known and not v_file.equal then
            raise exception using errcode = 'LD200',
                message = format('%s/%s was changed after its execution', {schema}, v_file.path),
                hint = 'write the script again with the released program';
        elsif v_file.kind = 'table' and not v_file.equal and not v_file.is_new
            and v_file.version = {version}
            and not exists (
                select from pg_temp.londiste_plan where kind in ('upgrade', 'after') and run)
        then
            raise exception using errcode = 'LD200',
                message = format('%s/%s was changed without an upgrade file', {schema},
                    v_file.path),
                hint = 'write the script again with a released program';
        end if;
    end loop;
end
$londiste$;
"""

_LOCK = """
select exists (
    select from pg_temp.londiste_plan where kind in ('upgrade', 'after') and run
) as londiste_run \\gset
\\if :londiste_run
{locks}
\\endif
"""

_REMEMBER = """
select exists (select from pg_temp.londiste_plan where run or note) as londiste_run \\gset
\\if :londiste_run
{ledger}
insert into {table} as f (path, sha256, version)
select path, sha256, {version} from pg_temp.londiste_plan where run or note
on conflict (path) do update set sha256 = excluded.sha256, version = excluded.version,
    installed_at = excluded.installed_at, installed_by = excluded.installed_by;
\\endif
with gone as (
    select f.path, regexp_replace(f.path, '^.*/([0-9]+_)?([^/]+)[.]sql$', '\\2') as object
    from {table} as f
    where f.path not in (select p.path from pg_temp.londiste_plan as p)
        and f.path not like 'upgrades/%'
)
delete from {table} as f
using gone as g
where g.path = f.path
    and (
        exists (
            select from pg_temp.londiste_plan as p
            where p.path ~ '^(tables|functions|triggers)/'
                and regexp_replace(p.path, '^.*/([0-9]+_)?([^/]+)[.]sql$', '\\2') = g.object)
        or not exists (
            select from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
            where n.nspname = {schema} and c.relname = g.object
            union all
            select from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
            where n.nspname = {schema} and p.proname = g.object)
    );
commit;
"""


def _component(component: Component) -> Iterator[str]:
    values = {
        "schema": sql.Literal(component.name),
        "version": sql.Literal(component.version),
        "component_row": sql.Literal(COMPONENT),
        "own_key": sql.SQL(_key(component.version)),
        "table": sql.Identifier(component.name, "installed_file"),
        "files": sql.SQL(",\n        ").join(
            [
                _row(COMPONENT, "component", component.sha256, ""),
                *(_row(f.path, f.kind.value, f.sha256, f.release) for f in component.files),
            ]
        ),
        "doubts": owners.statement(owners.of_components([component.name])),
        "locks": locks.statement([component.name]),
        "ledger": ledger.statement(component.name),
    }
    yield f"\n-- {component.name} {component.version}"
    yield _BEGIN
    owned = sql.SQL(_OWNERS).format(**values).as_string(None)
    yield owned
    for text in (_READ, _PLAN, _LOCK):
        yield sql.SQL(text).format(**values).as_string(None)
    schemas = owners.of_components([component.name])
    yield default_rights.noting(schemas).as_string(None)
    revoke = default_rights.revoking(schemas).as_string(None)
    for file in component.in_order():
        if file.kind is FileKind.GRANTS:
            yield revoke
        yield _file(component, file)
        if file.kind is FileKind.SCHEMA:
            yield revoke
            yield owned
    yield sql.SQL(_REMEMBER).format(**values).as_string(None)


def _file(component: Component, file: SourceFile) -> str:
    path = sql.Literal(file.path).as_string(None)
    return (
        f"-- {component.name}/{file.path}\n"
        f"select run as londiste_run from pg_temp.londiste_plan where path = {path} \\gset\n"
        f"\\if :londiste_run\n{file.text.rstrip()}\n;\n\\endif\n"
    )


def _row(path: str, kind: str, sha256: str, release: str) -> sql.Composed:
    key = sql.SQL(_key(release)) if release else sql.SQL("null::int[]")
    return sql.SQL("({}, {}, {}, {})").format(
        sql.Literal(path), sql.Literal(kind), sql.Literal(sha256), key
    )


def _key(version: str) -> str:
    return "array[" + ", ".join(str(part) for part in version_key(version)) + "]"
