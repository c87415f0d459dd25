/*
 * The tables of a database that could be replicated, with the bytes of their rows.
 *
 * Partitioned tables with the sum of their partitions; is_partition -- part of such a table.
 */
select
    n.nspname::text as schema,
    c.relname::text as name,
    c.relispartition as is_partition,
    case c.relkind
        when 'p' then (
            select coalesce(pg_catalog.sum(pg_catalog.pg_table_size(t.relid)), 0)::int8
            from pg_catalog.pg_partition_tree(c.oid) t
            where t.isleaf)
        else pg_catalog.pg_table_size(c.oid)
    end as bytes
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p')
    and c.relpersistence = 'p'
    and n.nspname not in ('information_schema', 'pgq', 'pgq_ext', 'pgq_coop', 'pgq_node',
                          'londiste', 'londiste_capture')
    and n.nspname !~ '^pg_'
    and pg_catalog.strpos(n.nspname::text, '.') = 0
order by 1, 2
