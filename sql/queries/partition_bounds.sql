/*
 * A table and its partitions at all levels; waits for no lock of a partition.
 *
 * %(schema)s, %(name)s -- the table.
 * path -- the bounds from the table down to the partition; empty for the table itself.
 * key -- how it is partitioned itself; null for a table that is not.
 * type -- of its only key column, if that is a type of PostgreSQL in its ordinary order; null otherwise.
 * list_type -- the same, if equal values of it have one text.
 */
with recursive tree (oid, path) as (
    select c.oid, '{}'::text[]
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = %(schema)s and c.relname = %(name)s and c.relkind = 'p'
    union all
    select c.oid, t.path || pg_catalog.pg_get_expr(c.relpartbound, 0) collate "default"
    from tree t
    join pg_catalog.pg_inherits i on i.inhparent = t.oid and not i.inhdetachpending
    join pg_catalog.pg_class c on c.oid = i.inhrelid and c.relispartition
)
select
    t.path,
    n.nspname::text as schema,
    c.relname::text as name,
    case when p.partrelid is not null then pg_catalog.pg_get_partkeydef(t.oid) end as key,
    case when k.is_ordered and k.type !~ '^bit' then k.type end as type,
    case when k.is_exact and k.type in ('smallint', 'integer', 'bigint', 'boolean', 'uuid', 'date', 'text', 'character varying')
        then k.type end as list_type
from tree t
join pg_catalog.pg_class c on c.oid = t.oid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join pg_catalog.pg_partitioned_table p on p.partrelid = t.oid
left join lateral (
    select pg_catalog.format_type(a.atttypid, null) as type, y.typcollation = 0 as is_ordered,
        not exists (
            select from pg_catalog.pg_collation c
            where c.oid = a.attcollation and not c.collisdeterministic) as is_exact
    from pg_catalog.pg_attribute a
    join pg_catalog.pg_type y on y.oid = a.atttypid
        and y.typnamespace = 'pg_catalog'::pg_catalog.regnamespace
    join pg_catalog.pg_opclass o on o.oid = p.partclass[0] and o.opcdefault
    where p.partnatts = 1 and a.attrelid = t.oid and a.attnum = p.partattrs[0]) k on true
order by t.path
