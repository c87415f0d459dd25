create or replace function pgq_ext.forget_batches(a_consumer text, a_subconsumer text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
/*
 * Deletes what a consumer has stored of its batches, of their events, and of their queue.
 *
 * After that the consumer processes the batch that its queue gives it next, whatever its number.
 */
begin
    delete from pgq_ext.completed_batch
    where consumer_id = a_consumer and subconsumer_id = a_subconsumer;
    delete from pgq_ext.completed_event
    where consumer_id = a_consumer and subconsumer_id = a_subconsumer;
    delete from pgq_ext.partial_batch
    where consumer_id = a_consumer and subconsumer_id = a_subconsumer;
    delete from pgq_ext.returned_event
    where consumer_id = a_consumer and subconsumer_id = a_subconsumer;
    delete from pgq_ext.known_source
    where consumer_id = a_consumer and subconsumer_id = a_subconsumer;
end;
$$;
