create or replace function pgq_node.set_consumer_hold(
    i_queue_name text,
    i_consumer_name text,
    i_tick_id int8,
    i_seconds int4,
    i_holder text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Pauses a consumer at a tick for some time.
 *
 * i_tick_id -- the consumer may reach this tick, and moves no further.
 * i_seconds -- duration of the hold in seconds.
 * i_holder -- name of the holder, which has one hold per consumer; a second call replaces it.
 *
 * ret_code -- 200 stored; 404 unknown consumer; 405 the consumer is after the tick already.
 */
declare
    v_tick int8;
begin
    -- FOR SHARE waits for a transaction that is moving the position now.  So the result
    -- refers to a position that stays until the hold is visible.
    select s.last_tick_id into v_tick
    from pgq_node.local_state s
    where s.queue_name = i_queue_name and s.consumer_name = i_consumer_name
    for share;
    if not found then
        select 404, 'Unknown consumer: ' || coalesce(i_queue_name, 'NULL') || '/'
            || coalesce(i_consumer_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if v_tick > i_tick_id then
        select 405, 'Consumer ' || i_consumer_name || ' has passed tick ' || i_tick_id::text
            || ', it stands at ' || v_tick::text into ret_code, ret_note;
        return;
    end if;
    insert into pgq_node.consumer_hold
        (queue_name, consumer_name, holder, tick_id, hold_until)
    values
        (i_queue_name, i_consumer_name, i_holder, i_tick_id,
         clock_timestamp() + make_interval(secs => i_seconds))
    on conflict (queue_name, consumer_name, holder) do update
        set tick_id = excluded.tick_id,
            hold_until = excluded.hold_until;
    select 200, 'Consumer held at tick ' || i_tick_id::text into ret_code, ret_note;
end;
$$;
