create or replace function pgq.ticker(i_queue_name text)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes a tick for one queue if it is due; returns its id, or null when it was not due.
 *
 * Belongs into a transaction of its own: events of the same transaction and the lock on the
 * queue wait for its end.  The commit is durable whatever synchronous_commit is by default.
 */
declare
    v_queue pgq.queue;
begin
    perform pgq._require_ticks(i_queue_name);
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    -- The look without a lock is the usual end.  A lock would use up a transaction id and write
    -- to disk many times a second on an idle server.
    if not pgq._tick_due(v_queue) then
        return null;
    end if;
    perform pgq.lock_ticks(i_queue_name);
    if not pgq._tick_due(v_queue) then
        return null;
    end if;
    return pgq._insert_tick(v_queue, null::txid_snapshot);
end;
$$;

create or replace function pgq.ticker()
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes the due ticks of all queues that tick here and are not paused; returns their number.
 *
 * A queue that somebody else is ticking, rotating or comparing is left for the next call.
 */
declare
    v_queue pgq.queue;
    v_count int8 := 0;
begin
    perform pgq._require_read_committed();
    perform pgq._require_home();
    for v_queue in
        select *
        from pgq.queue
        where not queue_external_ticker and not queue_ticker_paused
        order by queue_name
    loop
        begin
            continue when not pgq._tick_due(v_queue);
        exception
            when undefined_table then
                if exists (select 1 from pgq.queue where queue_id = v_queue.queue_id) then
                    raise;
                end if;
                -- It was dropped at this moment.
                continue;
        end;
        perform 1
        from pgq.queue
        where queue_id = v_queue.queue_id
            and not queue_external_ticker
            and not queue_ticker_paused
        for no key update skip locked;
        continue when not found;
        continue when not pgq._tick_due(v_queue);
        perform pgq._insert_tick(v_queue, null::txid_snapshot);
        v_count := v_count + 1;
    end loop;
    return v_count;
end;
$$;

create or replace function pgq.ticker(
    i_queue_name text,
    i_tick_id int8,
    i_orig_timestamp timestamptz,
    i_event_seq int8
)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes a tick that was made elsewhere first, with the same id, time and event sequence.
 *
 * For queues with external ticker (branch nodes), after the events of the tick are committed.
 * Raises both sequences so that they go on there should this node become the root.
 *
 * Ticks have to come in their order (LD103): one in front of another would see more than that, and
 * consumers behind it would get events twice.
 */
declare
    v_queue pgq.queue;
    v_newest int8;
begin
    select *
    into v_queue
    from pgq.queue
    where queue_name = i_queue_name
        and queue_external_ticker
        and not queue_ticker_paused
    for no key update;
    if not found then
        raise exception using
            errcode = 'LD103',
            message = format(
                'queue not found or ticker disabled: %s', coalesce(i_queue_name, 'NULL')
            ),
            detail = 'ticks of elsewhere need a queue with external ticker that is not paused',
            hint = 'look at it: '
                || format('select * from pgq.get_queue_info(%L)', i_queue_name);
    end if;

    perform pgq._require_home();
    select max(tick_id) into v_newest from pgq.tick where tick_queue = v_queue.queue_id;
    if i_tick_id < v_newest then
        raise exception using
            errcode = 'LD103',
            message = format('tick %s is older than tick %s', i_tick_id, v_newest),
            detail = format('queue %s has ticks up to %s already', i_queue_name, v_newest),
            hint = 'make the ticks in the order of their ids, from one place only';
    end if;
    perform pgq._make_commit_durable();
    insert into pgq.tick (tick_queue, tick_id, tick_time, tick_event_seq)
    values (v_queue.queue_id, i_tick_id, i_orig_timestamp, i_event_seq);
    perform pgq.seq_setval(v_queue.queue_tick_seq, i_tick_id);
    perform pgq.seq_setval(v_queue.queue_event_seq, i_event_seq);
    perform pg_notify('pgq_tick', left(i_queue_name, 1000));
    return i_tick_id;
end;
$$;
