create or replace function pgq._restored_until(i_table text)
returns int8
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * The transaction that made the first index of an event table; 0 when there is none.
 *
 * Both ways of making an event table put its index in a place that tells restored rows from new
 * ones: create_queue() makes the index of an empty table, pg_restore that of a filled one.  The
 * row of the index's column is looked at, because REINDEX leaves it alone.
 */
    select coalesce(min(pgq._full_xid(a.xmin)), 0)
    from pg_index i
    join pg_attribute a on a.attrelid = i.indexrelid and a.attnum = 1
    where i.indrelid = to_regclass(pgq.quote_fqname(i_table));
$$;
