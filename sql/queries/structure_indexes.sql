/*
 * Indexes of tables, those behind constraints included.
 *
 * %(oids)s -- the tables.
 * parent -- name of the index of a partitioned table that it is part of, and that table.
 * statistics -- column number -> statistics target, for expression columns that have one.
 */
select
    i.indrelid::int8 as oid,
    c.relname::text as name,
    pg_catalog.pg_get_indexdef(i.indexrelid) as definition,
    i.indisvalid as valid,
    coalesce((pg_catalog.to_jsonb(i) ->> 'indnullsnotdistinct')::bool, false) as nulls_not_distinct,
    i.indisclustered as clustered,
    i.indisreplident as replica_identity,
    coalesce(c.reloptions, '{}') as options,
    s.spcname::text as tablespace,
    pg_catalog.obj_description(c.oid, 'pg_class') as comment,
    coalesce(
        (
            select pg_catalog.jsonb_object_agg(a.attnum, a.attstattarget)
            from pg_catalog.pg_attribute a
            where a.attrelid = c.oid and a.attstattarget >= 0
        ),
        '{}'
    ) as statistics,
    k.conname::text as "constraint",
    p.relname::text as parent,
    ptn.nspname::text as parent_schema,
    pt.relname::text as parent_table
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
left join pg_catalog.pg_tablespace s on s.oid = c.reltablespace
left join pg_catalog.pg_constraint k
    on k.conindid = i.indexrelid and k.conrelid = i.indrelid and k.contype in ('p', 'u', 'x')
left join pg_catalog.pg_inherits h on h.inhrelid = i.indexrelid
left join pg_catalog.pg_class p on p.oid = h.inhparent
left join pg_catalog.pg_index pi on pi.indexrelid = p.oid
left join pg_catalog.pg_class pt on pt.oid = pi.indrelid
left join pg_catalog.pg_namespace ptn on ptn.oid = pt.relnamespace
where i.indrelid = any(%(oids)s::oid[])
order by i.indrelid, c.relname
