create or replace function londiste.apply_slice_start(
    i_queue_name text, i_attempt int8, i_slice int4
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns what a task must do with its slice of a large batch: 'stage', 'done' or 'superseded'.
 *
 * The task calls it first in the transaction that stages the slice.  With 'stage' the function writes
 * the mark, which becomes visible together with the rows.  A second run of the same task waits here
 * for the first one.
 */
begin
    perform 1
    from londiste.large_batch b
    where b.queue_name = i_queue_name
        and b.attempt = i_attempt
        and b.way is null
    for key share;
    if not found then
        return 'superseded';
    end if;
    insert into londiste.large_batch_slice (queue_name, attempt, slice)
    values (i_queue_name, i_attempt, i_slice)
    on conflict do nothing;
    if not found then
        return 'done';
    end if;
    return 'stage';
end;
$$;
