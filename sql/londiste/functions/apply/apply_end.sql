create or replace function londiste.apply_end(
    i_queue_name text, i_from_tick int8, i_to_tick int8, i_events int8, i_threshold int8,
    i_engine text, i_way text, i_reason text, i_seconds float8
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores how a large batch was applied, in the transaction that writes it.
 *
 * After that, late tasks find nothing to do.
 *
 * i_way -- job, part or worker, see londiste.large_batch.
 */
begin
    insert into londiste.large_batch as b
        (queue_name, attempt, from_tick, to_tick, events, threshold, engine, way, reason, seconds)
    values (
        i_queue_name, nextval('londiste.large_batch_attempt'), i_from_tick, i_to_tick, i_events,
        i_threshold, i_engine, i_way, i_reason, i_seconds
    )
    on conflict (queue_name) do update
    set from_tick = excluded.from_tick,
        to_tick = excluded.to_tick,
        events = excluded.events,
        threshold = excluded.threshold,
        engine = excluded.engine,
        way = excluded.way,
        reason = excluded.reason,
        seconds = excluded.seconds;
end;
$$;
