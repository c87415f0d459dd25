create or replace function pgq.get_known_source(
    i_queue_name text,
    i_consumer_name text,
    out source text,
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
as $$
/*
 * Returns what is stored about the queue that a consumer reads; no row when nothing is stored.
 */
    select ks_source, ks_generation, ks_registration, ks_tick, ks_tick_time
    from pgq.known_source
    where ks_queue = i_queue_name and ks_consumer = i_consumer_name;
$$;
