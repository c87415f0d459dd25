create or replace function pgq_coop._touch(
    i_queue_id int4,
    i_consumer_id int4,
    i_active timestamptz,
    i_dead_interval interval
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores a sign of life of a worker, unless one was stored a short while ago.
 */
declare
    v_sub pgq.registration;
begin
    if i_active + least(i_dead_interval / 4, '5 seconds') < clock_timestamp() then
        v_sub := pgq._lock_subscription(i_queue_id, i_consumer_id);
        perform pgq._put_position(
            v_sub, v_sub.sub_last_tick, v_sub.sub_batch, v_sub.sub_next_tick, clock_timestamp()
        );
    end if;
end;
$$;
