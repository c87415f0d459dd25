create or replace function pgq.move_known_tick(
    i_queue_name text,
    i_consumer_name text,
    i_tick_id int8,
    i_tick_time timestamptz
)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the tick that a consumer has reached, in the transaction that stores its data.
 *
 * Returns 1.  Returns 0 and changes nothing for a consumer without a stored source.
 */
begin
    update pgq.known_source
    set ks_tick = i_tick_id,
        ks_tick_time = i_tick_time
    where ks_queue = i_queue_name and ks_consumer = i_consumer_name;
    return found::int4;
end;
$$;
