create or replace function pgq._restored_until(i_table text)
returns int8
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the transaction that created the first index of an event table; 0 when there is none.
 *
 * Both ways of creating an event table put its index in a place that separates restored rows from new
 * ones: create_queue() creates the index of an empty table, pg_restore that of a filled one.  The
 * function reads the row of the index's column, because REINDEX does not change it.
 */
    select coalesce(min(pgq._full_xid(a.xmin)), 0)
    from pg_index i
    join pg_attribute a on a.attrelid = i.indexrelid and a.attnum = 1
    where i.indrelid = to_regclass(pgq.quote_fqname(i_table));
$$;
