create or replace function pgq._next_batch(
    i_queue_name text,
    i_consumer_name text,
    i_min_lag interval,
    i_min_count int4,
    i_min_interval interval,
    i_nearest boolean,
    out batch_id int8,
    out cur_tick_id int8,
    out prev_tick_id int8,
    out cur_tick_time timestamptz,
    out prev_tick_time timestamptz,
    out cur_tick_event_seq int8,
    out prev_tick_event_seq int8
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Opens the consumer's next batch, as next_batch_custom() does.
 *
 * i_nearest -- true: of several ticks take the first that is far enough, even if the newest is hardly
 *     farther.
 */
declare
    v_sub pgq.registration;
    v_ticks record;
    v_lost_nr int8;
begin
    loop
        select s.*
        into v_sub
        from pgq.queue q
        join pgq.registration s on s.sub_queue = q.queue_id
        join pgq.consumer c on c.co_id = s.sub_consumer
        where q.queue_name = i_queue_name and c.co_name = i_consumer_name;
        if not found then
            raise exception using
                errcode = 'LD002',
                message = format(
                    'Not subscriber to queue: %s/%s',
                    coalesce(i_queue_name, 'NULL'),
                    coalesce(i_consumer_name, 'NULL')
                ),
                detail = format('in database %s', current_database()),
                hint = format('select pgq.register_consumer(%L, %L)',
                              i_queue_name, i_consumer_name);
        end if;
        v_sub := pgq._position(v_sub);
        continue when v_sub.sub_key is null;

        select
            last.tick_id is null as is_lost,
            last.tick_time as last_time,
            last.tick_event_seq as last_seq,
            next.tick_time as next_time,
            next.tick_event_seq as next_seq,
            txid_snapshot_xmax(coalesce(next.tick_snapshot, last.tick_snapshot)) as xmax,
            -- pgq._is_at_home() without the checks that it makes when the answer is no.
            (select i.row_xmin = i.xmin::text::int8 from pgq.cluster_identity i) as is_at_home
        into v_ticks
        from (select v_sub.sub_queue) as s (queue_id)
        left join pgq.tick last
            on last.tick_queue = s.queue_id and last.tick_id = v_sub.sub_last_tick
        left join pgq.tick next
            on next.tick_queue = s.queue_id and next.tick_id = v_sub.sub_next_tick;
        if v_ticks.is_lost and v_lost_nr is distinct from v_sub.sub_nr then
            -- The consumer may have continued, and rotation deleted the tick, between the two checks.
            v_lost_nr := v_sub.sub_nr;
            continue;
        end if;
        if v_ticks.is_lost then
            raise exception using
                errcode = 'LD107',
                message = format(
                    'PgQ corruption: consumer %s on queue %s does not see tick %s',
                    i_consumer_name,
                    i_queue_name,
                    coalesce(v_sub.sub_last_tick::text, 'NULL')
                ),
                detail = case when v_sub.sub_last_tick is null
                    then 'an idle cooperative consumer has no position of its own'
                    else 'the position of the consumer is no tick of the queue' end,
                hint = case when v_sub.sub_last_tick is null
                    then 'open its batch with pgq_coop.next_batch()'
                    else 'set the position with pgq.register_consumer_at(), and bring the '
                        'consumer''s data to that point' end;
        end if;
        if v_ticks.is_at_home is not true then
            perform pgq._require_home();
        end if;
        if v_ticks.xmax > txid_snapshot_xmax(txid_current_snapshot()) then
            raise exception using
                errcode = 'LD201',
                message = format(
                    'Invalid PgQ state: old xmax=%s, cur txid=%s',
                    v_ticks.xmax,
                    txid_snapshot_xmax(txid_current_snapshot())
                ),
                detail = format(
                    'consumer %s of queue %s is at a future tick: the database was '
                    'restored from another server',
                    i_consumer_name,
                    i_queue_name
                ),
                hint = 'in that database: londiste queue rebase, or select * from pgq.rebase_queues()';
        end if;

        prev_tick_id := v_sub.sub_last_tick;
        prev_tick_time := v_ticks.last_time;
        prev_tick_event_seq := v_ticks.last_seq;
        if v_sub.sub_batch is not null then
            batch_id := v_sub.sub_batch;
            cur_tick_id := v_sub.sub_next_tick;
            cur_tick_time := v_ticks.next_time;
            cur_tick_event_seq := v_ticks.next_seq;
            return;
        end if;

        if i_min_count is null and i_min_interval is null then
            select tick_id, tick_time, tick_event_seq
            into cur_tick_id, cur_tick_time, cur_tick_event_seq
            from pgq.tick
            where tick_queue = v_sub.sub_queue and tick_id > v_sub.sub_last_tick
            order by tick_id
            limit 1;
        elsif i_nearest and i_min_interval is null then
            select tick_id, tick_time, tick_event_seq
            into cur_tick_id, cur_tick_time, cur_tick_event_seq
            from pgq.tick
            where tick_queue = v_sub.sub_queue
                and tick_id > v_sub.sub_last_tick
                and tick_event_seq - v_ticks.last_seq >= i_min_count
            order by tick_id
            limit 1;
        else
            select next_tick_id, next_tick_time, next_tick_seq
            into cur_tick_id, cur_tick_time, cur_tick_event_seq
            from pgq.find_tick_helper(
                v_sub.sub_queue,
                v_sub.sub_last_tick,
                v_ticks.last_time,
                v_ticks.last_seq,
                i_min_count,
                i_min_interval
            );
        end if;
        if cur_tick_id is null or now() - cur_tick_time < i_min_lag then
            cur_tick_id := null;
            prev_tick_id := null;
            cur_tick_time := null;
            prev_tick_time := null;
            cur_tick_event_seq := null;
            prev_tick_event_seq := null;
            return;
        end if;

        batch_id := nextval('pgq.batch_id_seq');
        -- Moves nothing if another session has opened or finished a batch since the check.
        if pgq._put_position(v_sub, v_sub.sub_last_tick, batch_id, cur_tick_id) then
            return;
        end if;
        batch_id := null;
        cur_tick_id := null;
    end loop;
end;
$$;
