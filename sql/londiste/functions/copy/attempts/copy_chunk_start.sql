create or replace function londiste.copy_chunk_start(
    i_queue_name text, i_table_name text, i_attempt int8, i_chunk int4
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns what a task must do with its chunk: 'copy', 'done' or 'superseded'.
 *
 * The task calls it first in the transaction that copies the chunk.  With 'copy' the function writes
 * the done-mark, which becomes visible together with the rows.  A second run of the same task waits
 * here for the first one.
 */
begin
    perform 1
    from londiste.copy_attempt a
    where a.queue_name = i_queue_name
        and a.table_name = i_table_name
        and a.attempt = i_attempt
    for key share;
    if not found then
        return 'superseded';
    end if;
    insert into londiste.copy_chunk (queue_name, table_name, attempt, chunk)
    values (i_queue_name, i_table_name, i_attempt, i_chunk)
    on conflict do nothing;
    if not found then
        return 'done';
    end if;
    return 'copy';
end;
$$;
