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
 * Closes the batch of a worker that _lock_batch() has locked; the worker is idle then.
 */
begin
    perform pgq._put_position(
        pgq._lock_subscription(i_queue_id, i_consumer_id), null::int8, null::int8, null::int8, clock_timestamp()
    );
    perform pgq_coop._drop_delivery(i_batch_id);
end;
$$;
