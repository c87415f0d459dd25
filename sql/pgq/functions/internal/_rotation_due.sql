create or replace function pgq._rotation_due(i_queue_name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether a queue may switch to the next event table now, locks aside.
 *
 * It may when the period is over, the last switch is complete, and every consumer's position
 * is after that switch.  A switch that is more than a period in the future counts as old:
 * the clock was set back.
 */
declare
    v_queue pgq.queue;
    v_tick_id int8;
    v_snapshot txid_snapshot;
    v_xmax int8;
begin
    select *
    into v_queue
    from pgq.queue
    where queue_name = i_queue_name
        and queue_rotation_period is not null
        and queue_switch_step2 is not null
        and (
            queue_switch_time + queue_rotation_period < now()
            or queue_switch_time > now() + queue_rotation_period
        );
    if not found then
        return false;
    end if;
    perform pgq._require_home();
    -- After the queue's row, which another session may have written a moment ago.
    v_xmax := txid_snapshot_xmax(txid_current_snapshot());
    if v_xmax < v_queue.queue_switch_step1 then
        raise exception using
            errcode = 'LD201',
            message = format(
                'queue %s maint failure: step1=%s, current=%s',
                i_queue_name,
                v_queue.queue_switch_step1,
                v_xmax
            ),
            detail = 'transaction ids went backwards since the last rotation: the database was '
                'restored into another server',
            hint = 'londiste queue rebase, or select * from pgq.rebase_queues()';
    end if;

    select min(sub_last_tick)
    into v_tick_id
    from pgq.subscription
    where sub_queue = v_queue.queue_id;
    if v_tick_id is null then
        return true;
    end if;
    select tick_snapshot
    into v_snapshot
    from pgq.tick
    where tick_queue = v_queue.queue_id and tick_id = v_tick_id;
    if not found then
        raise exception using
            errcode = 'LD107',
            message = format('queue %s maint failure: tick %s not found', i_queue_name, v_tick_id),
            detail = 'a consumer is at a tick that the queue does not have',
            hint = 'find it: select * from pgq.get_consumer_info() where last_tick = '
                || v_tick_id;
    end if;
    return txid_snapshot_xmin(v_snapshot) > v_queue.queue_switch_step2;
end;
$$;
