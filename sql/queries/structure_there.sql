/*
 * Which of the wanted things are in this database.
 *
 * %(schemas)s, %(roles)s -- names; %(types)s, %(relations)s -- [[schema, name], ...] as json;
 * %(functions)s -- signatures; %(collations)s -- quoted names; %(own)s -- the privilege to give
 * objects to a role: SET, before PostgreSQL 16 MEMBER.
 * kind, schema, name of each that is there; for a role ``detail`` is yes when this session may make
 * it an owner and then still has its rights.  A creator may create in the schema; a member,
 * in column schema, has the rights of the role in column name.
 * A column is the detail of its relation, in the order of columns.
 */
select 'schema' as kind, null::text as schema, n.nspname::text as name, null::text as detail
from pg_catalog.pg_namespace n
where n.nspname = any(%(schemas)s::text[])
union all
select 'role', null, r.rolname::text,
    case when (select u.rolsuper from pg_catalog.pg_roles u where u.rolname = current_user)
            or pg_catalog.pg_has_role(r.oid, %(own)s) and pg_catalog.pg_has_role(r.oid, 'USAGE')
        then 'yes' else 'no' end
from pg_catalog.pg_roles r
where r.rolname = any(%(roles)s::text[])
union all
select 'superuser', null, u.rolname::text, null
from pg_catalog.pg_roles u
where u.rolname = current_user and u.rolsuper
union all
select 'creator', n.nspname::text, r.rolname::text, null
from pg_catalog.pg_namespace n, pg_catalog.pg_roles r
where n.nspname = any(%(schemas)s::text[]) and r.rolname = any(%(roles)s::text[])
    and pg_catalog.has_schema_privilege(r.oid, n.oid, 'CREATE')
union all
select 'member', r.rolname::text, o.rolname::text, null
from pg_catalog.pg_roles r, pg_catalog.pg_roles o
where r.rolname = any(%(roles)s::text[]) and o.rolname = any(%(roles)s::text[])
    and pg_catalog.pg_has_role(r.oid, o.oid, 'USAGE')
union all
select 'type', n.nspname::text, t.typname::text, null
from pg_catalog.jsonb_array_elements(%(types)s::jsonb) w
join pg_catalog.pg_namespace n on n.nspname = w ->> 0
join pg_catalog.pg_type t on t.typnamespace = n.oid and t.typname = w ->> 1
union all
select 'relation', n.nspname::text, c.relname::text, c.relkind::text
from pg_catalog.jsonb_array_elements(%(relations)s::jsonb) w
join pg_catalog.pg_namespace n on n.nspname = w ->> 0
join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = w ->> 1
union all
(
    select 'column', n.nspname::text, c.relname::text, a.attname::text
    from pg_catalog.jsonb_array_elements(%(relations)s::jsonb) w
    join pg_catalog.pg_namespace n on n.nspname = w ->> 0
    join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = w ->> 1
    join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    order by c.oid, a.attnum
)
union all
select 'function', null, w, null
from pg_catalog.unnest(%(functions)s::text[]) w
where exists (
    -- to_regprocedure() fails for a type that is missing, before PostgreSQL 16.
    select from pg_catalog.pg_proc f where f.oid::pg_catalog.regprocedure::text = w)
union all
select 'collation', null, w.name, null
from pg_catalog.pg_collation o
join pg_catalog.pg_namespace n on n.oid = o.collnamespace
cross join lateral (
    select pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(o.collname) as name
) w
where w.name = any(%(collations)s::text[])
    and o.collencoding in (-1, (
        select b.encoding from pg_catalog.pg_database b
        where b.datname = pg_catalog.current_database()))
union all
select 'compression', null, w, null
from pg_catalog.pg_settings s, pg_catalog.unnest(s.enumvals) w
where s.name = 'default_toast_compression'
union all
select 'taken', n.nspname::text, x.name::text, x.detail
from pg_catalog.pg_namespace n
cross join lateral (
    select c.relname as name,
        case when c.relkind = 'S' and not exists (
            select from pg_catalog.pg_depend d
            where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objid = c.oid
                and d.deptype in ('a', 'i')) then 'free sequence' end as detail
    from pg_catalog.pg_class c where c.relnamespace = n.oid
    union all
    select s.stxname, 'statistics' from pg_catalog.pg_statistic_ext s where s.stxnamespace = n.oid
) x
where n.nspname = any(%(schemas)s::text[])
