create or replace function pgq_ext.forget_known_source(a_consumer text, a_subconsumer text)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
/*
 * Deletes which queue a consumer's position belongs to.  Returns 1, or 0 when nothing was stored.
 *
 * After that the position counts for the queue that the consumer finds next.
 */
declare
    v_count int4;
begin
    delete from pgq_ext.known_source
    where consumer_id = a_consumer and subconsumer_id = a_subconsumer;
    get diagnostics v_count = row_count;
    return v_count;
end;
$$;
