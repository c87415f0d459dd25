create or replace function londiste.copy_stop(i_queue_name text, i_table_name text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Requests the copy process to stop the copy of a table.  Returns true when a copy was running.
 *
 * The function returns at once and takes no lock on the table.  The tasks of the copy end within
 * about two seconds after the commit.  If the table still has to be copied, the copy process starts
 * it again after a pause.
 */
begin
    update londiste.copy_attempt a
    set stop_requested = true
    where a.queue_name = i_queue_name
        and a.table_name = i_table_name;
    return found;
end;
$$;
