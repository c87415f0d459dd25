create or replace function pgq.read_ahead(
    i_queue_name text,
    i_consumer_name text,
    i_from_tick int8,
    i_min_count int4 default null,
    i_min_interval interval default null,
    i_max_count int4 default null,
    i_max_tick int8 default null,
    out tick_id int8,
    out tick_time timestamptz,
    out event_seq int8,
    out event_sql text
)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
/*
 * Returns the last tick and the event query of the batch that follows i_from_tick.
 *
 * The consumer can read these events while it works on the batch before.  All null when no tick
 * exists yet.
 *
 * The function opens no batch.  The events are valid only if the batch that is opened later lies
 * between the same two ticks.  They are the events of that batch, including retries of this
 * consumer.
 *
 * i_min_count, i_min_interval, i_max_count, i_max_tick -- the values that finish_and_next() will
 *     get.
 */
declare
    v_queue pgq.queue;
    v_from pgq.tick;
    v_to pgq.tick;
    v_sub_id int4;
    v_min_count int4 := i_min_count;
begin
    select q.* into v_queue from pgq.queue q where q.queue_name = i_queue_name;
    select t.*
    into v_from
    from pgq.tick t
    where t.tick_queue = v_queue.queue_id and t.tick_id = i_from_tick;
    select s.sub_id
    into v_sub_id
    from pgq.subscription s
    join pgq.consumer c on c.co_id = s.sub_consumer
    where s.sub_queue = v_queue.queue_id and c.co_name = i_consumer_name;
    if v_from.tick_id is null
        or v_sub_id is null
        or txid_snapshot_xmin(v_from.tick_snapshot) < v_queue.queue_history_txid
    then
        return;
    end if;
    perform pgq._require_home();

    if i_min_count is null and i_min_interval is null then
        v_min_count := pgq._joined_count(i_queue_name, i_from_tick, i_max_count, i_max_tick);
    end if;
    if v_min_count is null and i_min_interval is null then
        select t.*
        into v_to
        from pgq.tick t
        where t.tick_queue = v_queue.queue_id and t.tick_id > i_from_tick
        order by t.tick_id
        limit 1;
    elsif i_max_tick is not null and i_min_interval is null then
        select t.*
        into v_to
        from pgq.tick t
        where t.tick_queue = v_queue.queue_id
            and t.tick_id > i_from_tick
            and t.tick_event_seq - v_from.tick_event_seq >= v_min_count
        order by t.tick_id
        limit 1;
    else
        select t.*
        into v_to
        from pgq.find_tick_helper(
            v_queue.queue_id,
            i_from_tick,
            v_from.tick_time,
            v_from.tick_event_seq,
            v_min_count,
            i_min_interval
        ) as f
        join pgq.tick t on t.tick_queue = v_queue.queue_id and t.tick_id = f.next_tick_id;
    end if;
    if v_to.tick_id is null then
        return;
    end if;
    tick_id := v_to.tick_id;
    tick_time := v_to.tick_time;
    event_seq := v_to.tick_event_seq;
    event_sql := pgq._snapshot_event_sql(
        v_queue.queue_id,
        v_from.tick_snapshot,
        v_to.tick_snapshot,
        format('(ev_owner is null or ev_owner = %s)', v_sub_id)
    );
end;
$$;
