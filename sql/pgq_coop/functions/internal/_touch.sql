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
 * Notes that a worker lives, unless that was noted a short while ago: not a write per call.
 */
begin
    if i_active + least(i_dead_interval / 4, '5 seconds') < clock_timestamp() then
        update pgq.subscription
        set sub_active = clock_timestamp()
        where sub_queue = i_queue_id and sub_consumer = i_consumer_id;
    end if;
end;
$$;
