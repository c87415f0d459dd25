create or replace function pgq_coop._close_batch(
    i_batch_id int8,
    i_queue_id int4,
    i_consumer_id int4
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Closes the batch of a worker that _lock_batch() has locked; it is idle then.
 */
begin
    update pgq.subscription
    set sub_last_tick = null,
        sub_next_tick = null,
        sub_batch = null,
        sub_active = clock_timestamp()
    where sub_queue = i_queue_id and sub_consumer = i_consumer_id;
    perform pgq_coop._drop_delivery(i_batch_id);
end;
$$;
