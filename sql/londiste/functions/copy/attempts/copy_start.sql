create or replace function londiste.copy_start(
    i_queue_name text, i_table_name text,
    i_total_bytes int8 default 0, i_total_rows int8 default 0, i_total_chunks int4 default 1
)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Starts a new copy of a table and returns its number.
 *
 * The function waits until every task of the previous attempt has ended (lock_timeout limits the
 * wait).  After that, rows that these tasks committed are visible; other rows of theirs never
 * appear.  The function deletes done-marks of older attempts, and a request to stop.
 */
declare
    v_attempt int8 := nextval('londiste.copy_attempt_id');
begin
    insert into londiste.copy_attempt as a
        (queue_name, table_name, attempt, total_bytes, total_rows, total_chunks)
    values (i_queue_name, i_table_name, v_attempt, i_total_bytes, i_total_rows, i_total_chunks)
    on conflict (queue_name, table_name) do update
    set attempt = excluded.attempt,
        stop_requested = false,
        total_bytes = excluded.total_bytes,
        total_rows = excluded.total_rows,
        total_chunks = excluded.total_chunks,
        started_at = now(),
        resumes = false,
        plan = null;
    delete from londiste.copy_chunk c
    where c.queue_name = i_queue_name
        and c.table_name = i_table_name;
    delete from londiste.copy_range r
    where r.queue_name = i_queue_name
        and r.table_name = i_table_name;
    return v_attempt;
end;
$$;
