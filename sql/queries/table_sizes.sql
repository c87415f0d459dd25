/*
 * Sizes of several tables on disk, without indexes.
 *
 * %(schemas)s, %(names)s -- arrays, unquoted; tables that are not there are not in the result.
 */
select
    n.nspname as schema,
    c.relname as name,
    pg_catalog.pg_table_size(c.oid) as total_bytes
from unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema, name)
join pg_catalog.pg_namespace n on n.nspname = w.schema
join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = w.name
