create or replace function pgq.next_batch(i_queue_name text, i_consumer_name text)
returns int8
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Opens the next batch of a consumer and returns its id; null when there is none yet.
 *
 * The batch may be empty.  The consumer must finish an empty batch, too.
 */
    select f.batch_id
    from pgq._next_batch(i_queue_name, i_consumer_name, null::interval, null::int4, null::interval, false) as f;
$$;
