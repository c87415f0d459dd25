create or replace function pgq_coop.ack(i_batch_id int8, i_event_id int8)
returns int4
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Settles an event that receive() has handed out: it is processed.  Returns 1.
 *
 * The last event of the batch finishes it.  0 and a warning: the batch is finished, another
 * worker has taken it over and will do the event again, or the event was settled before.  Who
 * processes and acknowledges in one transaction has to roll back on 0; every event has its effect
 * exactly once then.
 */
    select pgq_coop.ack_events(i_batch_id, array[i_event_id]);
$$;
