create or replace function pgq.force_tick(i_queue_name text)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes the next run of the ticker create a tick for this queue.  Returns the newest tick.
 *
 * The function consumes more event ids than the queue needs for a tick.  Call it until the
 * result changes.  It has no effect when the queue has an external ticker or its ticker is paused.
 */
declare
    v_queue pgq.queue;
begin
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    if not found then
        perform pgq._raise_no_queue('No such queue', i_queue_name);
    end if;
    if not v_queue.queue_external_ticker and not v_queue.queue_ticker_paused then
        -- One by one: setval() could lower the sequence below ids that other sessions take at this time.
        perform count(nextval(v_queue.queue_event_seq))
        from generate_series(0, v_queue.queue_ticker_max_count::int8 * 2 + 1000);
        perform pg_notify('pgq_force_tick', left(i_queue_name, 1000));
    end if;
    return (select max(tick_id) from pgq.tick where tick_queue = v_queue.queue_id);
end;
$$;
