create or replace function londiste.copy_stop(i_queue_name text, i_table_name text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Asks the copy process to let go of a table; true when a copy of it was running.
 *
 * Returns at once and takes no lock on the table.  Its tasks end within about two seconds of the
 * commit; the copy process starts the table again after a pause when it is still to be copied.
 */
begin
    update londiste.copy_attempt a
    set stop_requested = true
    where a.queue_name = i_queue_name
        and a.table_name = i_table_name;
    return found;
end;
$$;
