create or replace function londiste.copy_chunk_times(
    i_queue_name text,
    out table_name text,
    out chunks int4,
    out bytes int8,
    out seconds float8,
    out deviation float8
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the duration of the finished chunks of the running copies, per table.
 *
 * seconds -- sum over the chunks.
 * deviation -- standard deviation of one chunk, in seconds; NULL for a single chunk.
 */
    select
        c.table_name,
        count(*)::int4,
        sum(c.bytes)::int8,
        sum(c.seconds)::float8,
        stddev_samp(c.seconds)::float8
    from londiste.copy_chunk c
    join londiste.copy_attempt a
        on a.queue_name = c.queue_name
        and a.table_name = c.table_name
        and a.attempt = c.attempt
    where c.queue_name = i_queue_name
        and c.seconds is not null
    group by c.table_name
    order by c.table_name
$$;
