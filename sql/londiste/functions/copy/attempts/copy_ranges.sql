create or replace function londiste.copy_ranges(
    i_queue_name text, i_table_name text, i_attempt int8,
    out chunk int4, out condition text, out bytes int8, out rows int8,
    out is_done bool, out snapshot text
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the chunks of a resumable copy, in order.
 *
 * is_done -- true: the rows of the chunk are in the table.
 * snapshot -- for chunks that are done, the snapshot of the source.
 */
    select r.chunk, r.condition, r.bytes, r.rows, c.chunk is not null, c.snapshot
    from londiste.copy_range r
    left join londiste.copy_chunk c using (queue_name, table_name, attempt, chunk)
    where r.queue_name = i_queue_name
        and r.table_name = i_table_name
        and r.attempt = i_attempt
    order by r.chunk
$$;
