create or replace function pgq_ext.get_returned_events(
    a_consumer text,
    a_subconsumer text,
    a_batch_id int8,
    out event_id int8,
    out retry_seconds int4,
    out max_attempts int4,
    out reason text
)
returns setof record
language sql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
/*
 * Returns the events of an applied batch that go back to the queue, by id.
 */
    select r.event_id, r.retry_seconds, r.max_attempts, r.reason
    from pgq_ext.returned_event r
    where r.consumer_id = a_consumer
        and r.subconsumer_id = a_subconsumer
        and r.batch_id = a_batch_id
    order by r.event_id;
$$;
