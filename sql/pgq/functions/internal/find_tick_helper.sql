create or replace function pgq.find_tick_helper(
    i_queue_id int4,
    i_prev_tick_id int8,
    i_prev_tick_time timestamptz,
    i_prev_tick_seq int8,
    i_min_count int8,
    i_min_interval interval,
    out next_tick_id int8,
    out next_tick_time timestamptz,
    out next_tick_seq int8
)
returns record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
/*
 * Returns the tick that ends a batch of a minimum number of events, or of a minimum duration.
 *
 * It is the newest tick if that is far enough away.  If the newest is more than twice as far, it is
 * the first tick that is far enough.  Nulls when no tick is far enough yet.
 *
 * i_min_count -- minimum number of events.
 * i_min_interval -- minimum time span.
 *
 * Ticks are read in their order: without statistics a scan of all of them would look cheaper.
 */
declare
    v_newest pgq.tick;
    v_enough boolean;
    v_too_much boolean;
begin
    select *
    into v_newest
    from pgq.tick
    where tick_queue = i_queue_id and tick_id > i_prev_tick_id
    order by tick_id desc
    limit 1;
    if not found then
        return;
    end if;

    v_enough := coalesce(v_newest.tick_event_seq - i_prev_tick_seq >= i_min_count, false)
        or coalesce(v_newest.tick_time - i_prev_tick_time >= i_min_interval, false);
    if not v_enough then
        return;
    end if;
    v_too_much := coalesce(v_newest.tick_event_seq - i_prev_tick_seq > i_min_count * 2, false)
        or coalesce(v_newest.tick_time - i_prev_tick_time > i_min_interval * 2, false);
    if v_too_much then
        select tick_id, tick_time, tick_event_seq
        into next_tick_id, next_tick_time, next_tick_seq
        from pgq.tick
        where tick_queue = i_queue_id
            and tick_id > i_prev_tick_id
            and (
                tick_event_seq - i_prev_tick_seq >= i_min_count
                or tick_time - i_prev_tick_time >= i_min_interval
            )
        order by tick_id
        limit 1;
    else
        next_tick_id := v_newest.tick_id;
        next_tick_time := v_newest.tick_time;
        next_tick_seq := v_newest.tick_event_seq;
    end if;
end;
$$;
