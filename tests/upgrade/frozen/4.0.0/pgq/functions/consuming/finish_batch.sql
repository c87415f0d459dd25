create or replace function pgq.finish_batch(x_batch_id int8)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Closes a batch: the consumer goes on behind it.  Returns 1.
 *
 * A batch that is not open is a warning and 0, so that finishing again does no harm.
 */
begin
    update pgq.subscription
    set sub_last_tick = sub_next_tick,
        sub_next_tick = null,
        sub_batch = null,
        sub_active = now()
    where sub_batch = x_batch_id;
    if not found then
        raise warning 'finish_batch: batch % not found', x_batch_id;
        return 0;
    end if;
    return 1;
end;
$$;
