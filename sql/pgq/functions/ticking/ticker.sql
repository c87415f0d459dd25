create or replace function pgq.ticker(i_queue_name text)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Creates a tick for one queue if it is due.  Returns its id, or null when no tick is due.
 *
 * Call it in a transaction of its own.  Otherwise events of the same transaction and the lock on
 * the queue wait for the end of that transaction.  The commit is durable, whatever
 * synchronous_commit is by default.
 */
declare
    v_queue pgq.queue;
begin
    perform pgq._require_ticks(i_queue_name);
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    -- The check without a lock is the usual end.  A lock would consume a transaction id and write
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
 * Creates the due ticks of all queues with a local ticker that is not paused.  Returns their number.
 *
 * A queue that another session is ticking, rotating or comparing waits for the next call.
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
                -- The queue was dropped at this moment.
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
 * Copies a tick of another node, with its id, time and event sequence.  Returns the id.
 *
 * For queues with an external ticker (branch nodes), after the events of the tick are committed.
 * The function raises both sequences of the queue.  So their values stay valid if this node
 * becomes the root.
 *
 * Ticks must arrive in order (LD103).  A tick inserted before another one would contain later
 * events, and consumers would get these events twice.
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
            hint = 'inspect it: '
                || format('select * from pgq.get_queue_info(%L)', i_queue_name);
    end if;

    perform pgq._require_home();
    select max(tick_id) into v_newest from pgq.tick where tick_queue = v_queue.queue_id;
    if i_tick_id < v_newest then
        raise exception using
            errcode = 'LD103',
            message = format('tick %s is older than tick %s', i_tick_id, v_newest),
            detail = format('queue %s has ticks up to %s already', i_queue_name, v_newest),
            hint = 'create ticks in the order of their ids, from one program only';
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
