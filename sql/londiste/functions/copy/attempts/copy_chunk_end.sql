create or replace function londiste.copy_chunk_end(
    i_queue_name text, i_table_name text, i_attempt int8, i_chunk int4,
    i_rows int8, i_bytes int8, i_snapshot text default null
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores size and duration of a chunk, in the transaction that has copied it.
 *
 * i_snapshot -- snapshot of the source for this chunk; NULL (default) when all chunks share one.
 */
begin
    update londiste.copy_chunk c
    set rows = i_rows,
        bytes = i_bytes,
        seconds = extract(epoch from clock_timestamp() - c.done_at),
        snapshot = i_snapshot
    where c.queue_name = i_queue_name
        and c.table_name = i_table_name
        and c.attempt = i_attempt
        and c.chunk = i_chunk;
end;
$$;
