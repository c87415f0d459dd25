/*
 * Types in columns of the tables %(tables)s to which another role can add code: a check of a domain,
 * a column of a composite type.  It would run when rows are written, with the rights of the writer:
 * the owner of the table, or who asks.
 *
 * Only types of roles that can become neither.  An enum has no code.
 */
with recursive trust (by) as (
    -- As londiste._acts_as_caller().
    select case when pg_catalog.current_setting('server_version_num')::int4 < 160000 then 'MEMBER' else 'USAGE, SET' end
), tables (oid, owner, writer) as (
    select c.oid, c.relowner,
        -- As londiste._is_of_others(): also in a database without Londiste.
        case
            when pg_catalog.pg_has_role(r.oid, c.relowner, 'MEMBER')
                and not pg_catalog.pg_has_role(c.relowner, r.oid, trust.by) then c.relowner
            else r.oid
        end
    from pg_catalog.unnest(%(tables)s::text[]) as t
    -- to_regclass() fails without USAGE on the schema.
    cross join lateral pg_catalog.parse_ident(t) as part
    join pg_catalog.pg_namespace as n on n.nspname = part[1]
    join pg_catalog.pg_class as c on c.relnamespace = n.oid and c.relname = part[2]
    join pg_catalog.pg_roles as r on r.rolname = current_user
    cross join trust
    where coalesce(pg_catalog.current_setting('londiste.run_as_owner', true), '') <> 'off'
), types (relid, oid) as (
    select a.attrelid, a.atttypid
    from pg_catalog.pg_attribute as a
    where a.attrelid in (select t.oid from tables as t) and a.attnum > 0 and not a.attisdropped
    union
    select y.relid, part.oid
    from types as y
        join pg_catalog.pg_type as p on p.oid = y.oid
        cross join lateral (
            select p.typbasetype
            union all
            select p.typelem
            union all
            select r.rngsubtype from pg_catalog.pg_range as r where p.oid in (r.rngtypid, r.rngmultitypid)
            union all
            select a.atttypid
            from pg_catalog.pg_attribute as a
            where a.attrelid = p.typrelid and a.attnum > 0 and not a.attisdropped
        ) as part (oid)
    where part.oid <> 0
)
select
    n.nspname || '.' || c.relname as table_name,
    pg_catalog.format_type(p.oid, null) as type,
    p.typowner::pg_catalog.regrole::text as owner,
    t.writer::pg_catalog.regrole::text as writer,
    case when s.relkind <> 'c'
        then pg_catalog.format('alter table %%s owner to %%s', s.oid::pg_catalog.regclass,
            t.writer::pg_catalog.regrole)
        else pg_catalog.format('alter type %%s owner to %%s', pg_catalog.format_type(p.oid, null),
            t.writer::pg_catalog.regrole)
    end as remedy
from tables as t
cross join trust
join types as y on y.relid = t.oid
join pg_catalog.pg_type as p on p.oid = y.oid and p.typtype in ('d', 'c', 'r')
left join pg_catalog.pg_class as s on s.oid = p.typrelid
join pg_catalog.pg_class as c on c.oid = t.oid
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where not pg_catalog.pg_has_role(p.typowner, t.owner, trust.by)
    and not pg_catalog.pg_has_role(p.typowner, t.writer, trust.by)
order by 1, 2
