create or replace function pgq_ext.get_known_source(
    a_consumer text,
    a_subconsumer text,
    out queue_name text,
    out generation uuid,
    out registration int4,
    out tick_id int8,
    out tick_time timestamptz
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
/*
 * Returns what is stored about the queue of a consumer's position; no row when nothing is stored.
 */
    select k.queue_name, k.generation, k.registration, k.tick_id, k.tick_time
    from pgq_ext.known_source k
    where k.consumer_id = a_consumer and k.subconsumer_id = a_subconsumer
    order by k.move_nr desc
    limit 1;
$$;
