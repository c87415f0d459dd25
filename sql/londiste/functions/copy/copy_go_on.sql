create or replace function londiste.copy_go_on(
    i_queue_name text, i_table_name text, out attempt int8, out plan jsonb
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * The attempt that a process may go on with, and its plan; no row when there is none.
 *
 * A request to let go of the table is fulfilled by now and forgotten.  An attempt cannot be resumed
 * any more once somebody has written in-copy into the state of its table: that asks for a new one.
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
