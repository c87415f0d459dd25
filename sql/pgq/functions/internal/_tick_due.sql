create or replace function pgq._tick_due(i_queue pgq.queue)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
/*
 * Returns whether the queue needs a tick now.
 *
 * With new events: when there are max_count of them, or max_lag has passed since the last tick.
 * Without: at growing intervals, each twice the last, up to idle_period.  A last tick that far in
 * the future counts as old: the clock was set back.
 *
 * The settings: a session keeps its plan while the ticks grow from a few to a million.
 *
 * Raises LD201 when the snapshot of the last tick is in the future.  The database was then restored
 * into a server whose transaction ids start lower, and events would not be found again.
 */
declare
    v_last pgq.tick;
    v_before timestamptz;
    v_xmax int8;
    v_new_events int8;
    v_age interval;
    v_gap interval;
begin
    select *
    into v_last
    from pgq.tick
    where tick_queue = (i_queue).queue_id
    order by tick_id desc
    limit 1;
    if not found then
        return true;
    end if;

    -- After the tick, which another session may have inserted a moment ago: an earlier snapshot could
    -- be older than the tick's.
    v_xmax := txid_snapshot_xmax(txid_current_snapshot());
    if txid_snapshot_xmin(v_last.tick_snapshot) > v_xmax then
        raise exception using
            errcode = 'LD201',
            message = format(
                'Invalid PgQ state: old xmin=%s, cur txid=%s',
                txid_snapshot_xmin(v_last.tick_snapshot),
                v_xmax
            ),
            detail = format(
                'transaction ids went backwards since tick %s of queue %s: the database was '
                'restored into another server',
                v_last.tick_id,
                (i_queue).queue_name
            ),
            hint = 'londiste queue rebase, or select * from pgq.rebase_queues()';
    end if;
    if txid_snapshot_xmax(v_last.tick_snapshot) > v_xmax then
        raise warning 'Dubious PgQ state: old xmax=%, cur txid=%',
            txid_snapshot_xmax(v_last.tick_snapshot), v_xmax;
    end if;
    v_new_events := pgq._last_taken((i_queue).queue_event_seq) - v_last.tick_event_seq;
    if v_new_events < 0 then
        raise warning 'Negative number of new events in queue %: %',
            (i_queue).queue_name, v_new_events;
    end if;

    v_age := now() - v_last.tick_time;
    if v_new_events > 0 then
        return v_new_events >= (i_queue).queue_ticker_max_count
            or v_age >= (i_queue).queue_ticker_max_lag
            or v_age <= - (i_queue).queue_ticker_max_lag;
    end if;

    select tick_time
    into v_before
    from pgq.tick
    where tick_queue = (i_queue).queue_id and tick_id < v_last.tick_id
    order by tick_id desc
    limit 1;
    if not found then
        return true;
    end if;
    v_gap := v_last.tick_time - v_before;
    if v_age < - (i_queue).queue_ticker_idle_period then
        return true;
    end if;
    return v_age >= (i_queue).queue_ticker_max_lag / 2
        and (v_age >= v_gap * 2
            -- A period of nothing would fill an idle queue with ticks.
            or v_age >= greatest((i_queue).queue_ticker_idle_period, interval '100 ms'));
end;
$$;
