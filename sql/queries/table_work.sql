/*
 * How much work some tables are: schema, name, bytes with indexes, and rows that were changed since
 * the statistics of the server began.  Those of a partitioned table are those of its partitions.
 *
 * %(schemas)s, %(names)s -- arrays, unquoted; tables that are not there are not in the result.
 */
select n.nspname::text, c.relname::text,
    coalesce(sum(pg_catalog.pg_total_relation_size(p.oid)), 0)::int8,
    coalesce(sum(s.n_tup_ins + s.n_tup_upd + s.n_tup_del), 0)::int8
from unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema, name)
    join pg_catalog.pg_namespace n on n.nspname = w.schema
    join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = w.name
    cross join lateral (
        select c.oid union select t.relid from pg_catalog.pg_partition_tree(c.oid) t
    ) as p (oid)
    left join pg_catalog.pg_stat_all_tables s on s.relid = p.oid
group by 1, 2
order by 1, 2
