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
 * The same, and takes over the batch of a worker that gave no sign of life for i_dead_interval.
 */
    select pgq_coop.next_batch_custom(
        i_queue_name, i_consumer_name, i_subconsumer_name, null::interval, null::int4, null::interval, i_dead_interval
    );
$$;
