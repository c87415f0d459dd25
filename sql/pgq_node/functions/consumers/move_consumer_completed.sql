create or replace function pgq_node.move_consumer_completed(
    i_queue_name text,
    i_consumer_name text,
    i_from_tick int8,
    i_to_tick int8,
    i_tick_time timestamptz default null,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Moves the position of a consumer from one tick to another if it is at the first one.
 *
 * Two processes that work for the same consumer cannot both move it.  The second process waits for
 * the row, finds another tick, and must roll its data back.  The function clears the last error.
 *
 * i_tick_time -- time of i_to_tick, recorded with the tick as by pgq.move_known_tick(); NULL: not
 *     recorded.
 *
 * ret_code -- 200 moved; 404 unknown consumer; 409 the consumer is at another tick.
 */
declare
    v_tick int8;
begin
    update pgq_node.local_state
    set last_tick_id = i_to_tick,
        cur_error = null
    where queue_name = i_queue_name
        and consumer_name = i_consumer_name
        and last_tick_id = i_from_tick;
    if found then
        update pgq.known_source
        set ks_tick = i_to_tick,
            ks_tick_time = i_tick_time
        where i_tick_time is not null
            and ks_queue = i_queue_name
            and ks_consumer = i_consumer_name;
        select 200, 'Consumer completed tick = ' || i_to_tick::text into ret_code, ret_note;
        return;
    end if;
    select s.last_tick_id into v_tick
    from pgq_node.local_state s
    where s.queue_name = i_queue_name and s.consumer_name = i_consumer_name;
    if not found then
        select 404, 'Unknown consumer: ' || coalesce(i_queue_name, 'NULL') || '/'
            || coalesce(i_consumer_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    select 409, 'Consumer ' || i_consumer_name || ' stands at tick ' || v_tick::text
        || ', not at ' || coalesce(i_from_tick::text, 'NULL') into ret_code, ret_note;
end;
$$;
