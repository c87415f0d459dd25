create or replace function londiste.apply_start(
    i_queue_name text, i_from_tick int8, i_to_tick int8, i_events int8, i_threshold int8,
    i_engine text
)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Starts a new attempt to stage a large batch, and returns its number.
 *
 * The function waits until every task of the previous attempt has ended (lock_timeout limits the
 * wait), and drops what they have staged.  Tasks write into londiste.staged_NUMBER: chunks of
 * rows as JSON.  The table is unlogged, because a crash of the server also ends the session that
 * would read it.
 */
declare
    v_attempt int8 := nextval('londiste.large_batch_attempt');
begin
    perform londiste.apply_sweep(i_queue_name);
    insert into londiste.large_batch as b
        (queue_name, attempt, from_tick, to_tick, events, threshold, engine)
    values (i_queue_name, v_attempt, i_from_tick, i_to_tick, i_events, i_threshold, i_engine)
    on conflict (queue_name) do update
    set attempt = excluded.attempt,
        from_tick = excluded.from_tick,
        to_tick = excluded.to_tick,
        events = excluded.events,
        threshold = excluded.threshold,
        engine = excluded.engine,
        way = null,
        reason = '',
        started_at = now(),
        seconds = null;
    execute format(
        'create unlogged table londiste.%I'
        ' (slice int4 not null, chunk int4 not null, rows text not null,'
        ' primary key (slice, chunk))',
        'staged_' || v_attempt
    );
    perform pgq._revoke_defaults('table'::text, 'londiste.staged_' || v_attempt);
    -- Each chunk is read once: compression costs more than it saves.
    execute format(
        'alter table londiste.%I alter column rows set storage external', 'staged_' || v_attempt
    );
    execute format(
        'grant select, insert on londiste.%I to londiste_writer', 'staged_' || v_attempt
    );
    return v_attempt;
end;
$$;
