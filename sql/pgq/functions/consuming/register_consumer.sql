create or replace function pgq.register_consumer(x_queue_name text, x_consumer_id text)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Registers a consumer at the end of the queue: it gets the events after the newest tick.
 *
 * Returns 1, or 0 when the consumer is registered already; then nothing changes.
 */
begin
    return pgq.register_consumer_at(x_queue_name, x_consumer_id, null::int8);
end;
$$;
