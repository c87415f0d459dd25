create or replace function londiste.copy_progress(
    i_queue_name text,
    out table_name text,
    out attempt int8,
    out seconds float8,
    out stop_requested bool,
    out total_bytes int8,
    out total_rows int8,
    out total_chunks int4,
    out chunks int4,
    out rows int8,
    out bytes int8
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the running copies of a queue, with the amount that finished chunks have moved.
 *
 * seconds -- time since the start of the copy.
 *
 * For chunks that are in progress see pg_stat_progress_copy.
 */
    select
        a.table_name,
        a.attempt,
        extract(epoch from clock_timestamp() - a.started_at)::float8,
        a.stop_requested,
        a.total_bytes,
        a.total_rows,
        a.total_chunks,
        count(c.chunk)::int4,
        coalesce(sum(c.rows), 0)::int8,
        coalesce(sum(c.bytes), 0)::int8
    from londiste.copy_attempt a
    left join londiste.copy_chunk c
        on c.queue_name = a.queue_name
        and c.table_name = a.table_name
        and c.attempt = a.attempt
    where a.queue_name = i_queue_name
    group by a.queue_name, a.table_name
    order by a.table_name
$$;
