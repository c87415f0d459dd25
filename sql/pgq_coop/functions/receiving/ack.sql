create or replace function pgq_coop.ack(i_batch_id int8, i_event_id int8)
returns int4
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Settles an event of receive() as processed.  Returns 1.
 *
 * The last event of the batch finishes it.
 *
 * With a warning the function returns 0 in these cases: the batch is finished; another worker has
 * taken it over and will process the event again; the event was settled before.  A worker that
 * processes and acknowledges in one transaction must roll it back on 0.  Then every event takes
 * effect exactly once.
 */
    select pgq_coop.ack_events(i_batch_id, array[i_event_id]);
$$;
