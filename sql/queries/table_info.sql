/*
 * What a name stands for: one row, or none when there is no such relation.
 *
 * %(schema)s, %(name)s -- unquoted.
 * pages: blocks of the main fork as they are on disk now, not as the statistics remember them;
 * filenode: changes when the table is rewritten, and with it every ctid.
 */
select
    c.oid::int8 as oid,
    c.relkind::text as kind,
    c.relpersistence::text as persistence,
    pg_catalog.pg_relation_size(c.oid)
        / pg_catalog.current_setting('block_size')::int8 as pages,
    pg_catalog.pg_relation_size(c.oid) as bytes,
    pg_catalog.pg_table_size(c.oid) as total_bytes,
    greatest(c.reltuples, 0)::float8 as rows_estimate,
    pg_catalog.pg_relation_filenode(c.oid)::int8 as filenode,
    c.relforcerowsecurity as forces_row_security,
    pg_catalog.current_setting('block_size')::int4 as block_size
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = %(schema)s
    and c.relname = %(name)s
