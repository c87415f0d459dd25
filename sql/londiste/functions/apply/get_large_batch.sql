create or replace function londiste.get_large_batch(
    i_queue_name text,
    out from_tick int8,
    out to_tick int8,
    out events int8,
    out threshold int8,
    out engine text,
    out way text,
    out reason text,
    out started_at timestamptz,
    out seconds float8
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the last large batch of a queue on this node; no row when there was none.
 */
select
    b.from_tick, b.to_tick, b.events, b.threshold, b.engine, b.way, b.reason, b.started_at,
    b.seconds
from londiste.large_batch b
where b.queue_name = i_queue_name;
$$;
