create or replace function pgq_ext.get_event_batch(a_consumer text, a_subconsumer text)
returns int8
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
/*
 * Returns the batch whose events set_event_done() stores; null when nothing is stored.
 */
    select cur_batch_id
    from pgq_ext.partial_batch
    where consumer_id = a_consumer and subconsumer_id = a_subconsumer
    order by move_nr desc
    limit 1;
$$;
