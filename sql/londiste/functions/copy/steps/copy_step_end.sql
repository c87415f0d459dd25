create or replace function londiste.copy_step_end(
    i_queue_name text, i_table_name text, i_step text,
    i_tasks int4 default null, i_busy float8 default null,
    i_rows int8 default null, i_bytes int8 default null
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Records that a step of a table's copy has ended, with its figures.
 *
 * i_tasks -- number of parallel tasks.
 * i_busy -- sum of their working time, in seconds.
 * i_rows, i_bytes -- number of rows and bytes moved.
 *
 * No effect on a step that was not started or has ended already.
 */
begin
    update londiste.copy_step s
    set seconds = extract(epoch from clock_timestamp() - s.started_at),
        tasks = coalesce(i_tasks, 1),
        busy = i_busy,
        rows = i_rows,
        bytes = i_bytes,
        waits = null
    where s.queue_name = i_queue_name
        and s.table_name = i_table_name
        and s.step = i_step
        and s.seconds is null;
end;
$$;
