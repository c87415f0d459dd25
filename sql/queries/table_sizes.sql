/*
 * Sizes of several tables on disk, without indexes.
 *
 * %(schemas)s, %(names)s -- arrays, unquoted; tables that are not there are not in the result.
 */
select
    n.nspname as schema,
    c.relname as name,
    case c.relkind
        when 'p' then (
            select coalesce(pg_catalog.sum(pg_catalog.pg_table_size(t.relid)), 0)::int8
            from pg_catalog.pg_partition_tree(c.oid) as t
        )
        else pg_catalog.pg_table_size(c.oid)
    end as total_bytes
from unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema, name)
join pg_catalog.pg_namespace n on n.nspname = w.schema
join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = w.name
