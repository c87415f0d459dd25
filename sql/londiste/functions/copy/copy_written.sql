create or replace function londiste.copy_written(i_queue_name text, i_table_name text)
returns setof xid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * The transactions in which chunks of a copy that did not come to its end were written: the xmin
 * of their done-marks, and so of their rows.
 *
 * Waits until no task of the current attempt is running; lock_timeout bounds the wait.  Where the
 * rows that were there stay (skip_truncate), a copy that begins again takes away these and no others.
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
        -- Out of a dump all rows may have the same xmin, those that shall stay as well.
        and c.xmin = ((c.txid & 4294967295)::text)::xid;
end;
$$;
