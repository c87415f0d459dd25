create or replace function londiste.copy_settle(
    i_queue_name text, i_table_name text, i_attempt int8
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Waits until no task of an attempt is running.
 *
 * Returns false when the attempt is not the current one.  lock_timeout limits the wait.  The attempt
 * and its done-marks stay, so that a process may resume it.
 */
begin
    perform
    from londiste.copy_attempt a
    where a.queue_name = i_queue_name
        and a.table_name = i_table_name
        and a.attempt = i_attempt
    for update;
    return found;
end;
$$;
