/*
 * Indexes of one table, those behind constraints included.
 *
 * %(oid)s -- the table.
 * attached: part of an index on a partitioned parent, which alone can drop it.
 * key: names of the columns that it orders by; empty if it has expressions or a condition.
 * statistics: [column number, statistics target] of expression columns that have one.
 */
select
    n.nspname as schema,
    c.relname as name,
    i.indisunique as "unique",
    i.indisprimary as "primary",
    i.indisvalid as valid,
    i.indisclustered as clustered,
    i.indisreplident as replica_identity,
    exists (
        select from pg_catalog.pg_inherits h where h.inhrelid = c.oid
    ) as attached,
    pg_catalog.pg_get_indexdef(i.indexrelid) as definition,
    coalesce(c.reloptions, '{}') as options,
    s.spcname as tablespace,
    pg_catalog.obj_description(c.oid, 'pg_class') as comment,
    (
        select coalesce(
            pg_catalog.jsonb_agg(array[a.attnum, a.attstattarget] order by a.attnum), '[]')
        from pg_catalog.pg_attribute a
        where a.attrelid = c.oid and a.attstattarget >= 0
    ) as statistics,
    k.conname as "constraint",
    array(
        select a.attname::text
        from unnest(i.indkey::int2[]) with ordinality as o (attnum, place)
        join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = o.attnum
        where o.place <= i.indnkeyatts
            and i.indexprs is null
            and i.indpred is null
        order by o.place
    ) as key
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join pg_catalog.pg_tablespace s on s.oid = c.reltablespace
left join pg_catalog.pg_constraint k
    on k.conindid = i.indexrelid and k.conrelid = i.indrelid and k.contype in ('p', 'u', 'x')
where i.indrelid = %(oid)s::oid
order by i.indisprimary desc, c.relname
