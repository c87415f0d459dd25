create or replace function pgq.register_consumer_at(
    x_queue_name text,
    x_consumer_name text,
    x_tick_pos int8
)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Registers a consumer after a tick, or moves a registered consumer there.
 *
 * x_tick_pos -- the tick; null: the newest tick.  For a registered consumer null changes nothing.
 *
 * Returns 1 for a new registration, which belongs to the session's role; 0 otherwise.
 *
 * Moving a consumer drops its open batch.  After a move backwards it reads events again, unless
 * rotation has removed them.  A move forward skips the events in between.  A cooperative worker
 * has no position of its own; only its main consumer can be moved (LD100).
 */
declare
    v_queue_id int4;
    v_consumer_id int4;
    v_tick int8;
    v_sub pgq.registration;
begin
    -- A session that may not use the consumer gets this answer without a lock that its owner would wait for.
    if x_tick_pos is null and exists (
        select
        from pgq.queue as q
            join pgq.registration as r on r.sub_queue = q.queue_id
            join pgq.consumer as c on c.co_id = r.sub_consumer
        where q.queue_name = x_queue_name
            and c.co_name = x_consumer_name
            and not pgq._may_consume(q.queue_id, c.co_id, 'use')
    ) then
        return 0;
    end if;
    -- Rotation, which deletes ticks, waits until this registration is committed.
    select queue_id into v_queue_id from pgq.queue where queue_name = x_queue_name for key share;
    if not found then
        perform pgq._raise_no_queue('Event queue not created yet', x_queue_name);
    end if;
    if x_consumer_name is null then
        raise exception using
            errcode = 'LD005',
            message = 'Invalid NULL value',
            hint = 'set x_consumer_name';
    end if;

    if x_tick_pos is not null then
        perform 1 from pgq.tick where tick_queue = v_queue_id and tick_id = x_tick_pos;
        if not found then
            raise exception using
                errcode = 'LD105',
                message = format('cannot reposition, tick not found: %s', x_tick_pos),
                detail = (
                    select format('queue %s has ticks %s to %s',
                                  x_queue_name, min(tick_id), max(tick_id))
                    from pgq.tick
                    where tick_queue = v_queue_id
                ),
                hint = 'choose a tick of table pgq.tick';
        end if;
    end if;

    -- unregister_consumer() deletes the name with the last queue.  The row lock keeps a
    -- consumer that leaves another queue at this moment from deleting it.
    loop
        select co_id
        into v_consumer_id
        from pgq.consumer
        where co_name = x_consumer_name
        for key share;
        exit when found;
        perform pgq._require_short_name('consumer'::text, x_consumer_name);
        insert into pgq.consumer (co_name)
        values (x_consumer_name)
        on conflict (co_name) do nothing;
    end loop;

    loop
        v_sub := pgq._lock_subscription(v_queue_id, v_consumer_id);
        exit when v_sub.sub_key is null;
        if x_tick_pos is not null then
            perform pgq._require_owner(v_queue_id, v_consumer_id, 'move');
        end if;
        if x_tick_pos is not null
            and pgq._is_subconsumer(v_sub.sub_id, v_queue_id, v_consumer_id)
        then
            raise exception using
                errcode = 'LD100',
                message = format('cannot reposition, %s is a cooperative worker', x_consumer_name),
                detail = 'workers share the position of their main consumer',
                hint = 'move the main consumer, whose name is the part before the dot';
        end if;
        if x_tick_pos is null or pgq._put_position(v_sub, x_tick_pos, null::int8, null::int8) then
            return 0;
        end if;
    end loop;

    v_tick := coalesce(
        x_tick_pos, (select max(tick_id) from pgq.tick where tick_queue = v_queue_id)
    );
    if v_tick is null then
        raise exception using
            errcode = 'LD105',
            message = 'No ticks for this queue.  Please run ticker on database.',
            detail = format('queue %s has no tick to start at', x_queue_name),
            hint = 'in that database: londiste ticker, or once: select pgq.ticker()';
    end if;
    insert into pgq.registration (sub_queue, sub_consumer, sub_last_tick, sub_generation)
    values (v_queue_id, v_consumer_id, v_tick, pgq._position_generation())
    on conflict on constraint subscription_pkey do nothing;
    if not found then
        return 0;
    end if;
    insert into pgq.consumer_owner (own_queue, own_consumer, own_role)
    values (v_queue_id, v_consumer_id, pgq._caller())
    on conflict on constraint own_pkey do update
        set own_role = excluded.own_role, own_exclusive = false;
    return 1;
end;
$$;
