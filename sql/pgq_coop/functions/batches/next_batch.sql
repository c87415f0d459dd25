create or replace function pgq_coop.next_batch(
    i_queue_name text,
    i_consumer_name text,
    i_subconsumer_name text
)
returns int8
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Opens the worker's next batch, up to the next tick, and returns its id; null if there is none.
 */
    select pgq_coop.next_batch_custom(
        i_queue_name, i_consumer_name, i_subconsumer_name, null::interval, null::int4, null::interval, null::interval
    );
$$;

create or replace function pgq_coop.next_batch(
    i_queue_name text,
    i_consumer_name text,
    i_subconsumer_name text,
    i_dead_interval interval
)
returns int8
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Opens the worker's next batch, or takes over the batch of a dead worker, and returns its id.
 *
 * i_dead_interval -- a worker without a sign of life for this time is dead.
 */
    select pgq_coop.next_batch_custom(
        i_queue_name, i_consumer_name, i_subconsumer_name, null::interval, null::int4, null::interval, i_dead_interval
    );
$$;
