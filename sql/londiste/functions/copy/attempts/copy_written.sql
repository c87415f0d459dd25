create or replace function londiste.copy_written(i_queue_name text, i_table_name text)
returns setof xid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the transactions that wrote chunks of an unfinished copy.
 *
 * These are the values of xmin of the done-marks, and so of the copied rows.  A new copy of a table
 * that keeps its existing rows (skip_truncate) deletes these rows and no others.
 *
 * Waits until no task of the current attempt is running; lock_timeout limits the wait.
 */
begin
    perform
    from londiste.copy_attempt a
    where a.queue_name = i_queue_name
        and a.table_name = i_table_name
    for update;
    return query
    select distinct c.xmin
    from londiste.copy_chunk c
    where c.queue_name = i_queue_name
        and c.table_name = i_table_name
        -- After a restore from a dump all rows may have the same xmin, including those to keep.
        and c.xmin = ((c.txid & 4294967295)::text)::xid;
end;
$$;
