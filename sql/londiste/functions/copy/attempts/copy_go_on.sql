create or replace function londiste.copy_go_on(
    i_queue_name text, i_table_name text, out attempt int8, out plan jsonb
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the attempt that a process may resume, and its plan; no row when there is none.
 *
 * The function clears a request to stop the copy.  An attempt cannot be resumed after the state of
 * its table was set to in-copy again: that requests a new attempt.
 */
begin
    return query
    update londiste.copy_attempt a
    set stop_requested = false
    where a.queue_name = i_queue_name
        and a.table_name = i_table_name
        and a.resumes
    returning a.attempt, a.plan;
end;
$$;
