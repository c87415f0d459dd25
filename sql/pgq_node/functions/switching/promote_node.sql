create or replace function pgq_node.promote_node(
    i_queue_name text,
    i_token uuid,
    i_tick_id int8,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes a branch the root, as part of an operation that is still in progress on this node.
 *
 * i_tick_id -- tick that the branch must have reached, in tables and queue: the last one of the old
 *     root.  If the old root has failed, a worker that was killed after its commit cannot ask for the
 *     tick.  Then this function creates it, with the time that the worker has stored: nodes compare.
 *
 * ret_code -- 200 is the root now; 201 this operation made it the root before; 301 not a branch; 404
 *     this database is no node of the queue; 405 the operation is not in progress on this node, or
 *     the branch is not at that tick.
 */
declare
    v_type text;
    v_kind text;
    v_tick int8;
    v_top int8;
    v_event int8;
    v_queue pgq.queue;
    v_time timestamptz;
begin
    select n.node_type, s.last_tick_id, max(t.tick_id), max(k.ks_tick_time)
    into v_type, v_tick, v_top, v_time
    from pgq_node.node_info n
        join pgq_node.local_state s
            on s.queue_name = n.queue_name and s.consumer_name = n.worker_name
        left join pgq.queue q on q.queue_name = n.queue_name
        left join pgq.tick t on t.tick_queue = q.queue_id
        left join pgq.known_source k
            on k.ks_queue = s.queue_name and k.ks_consumer = s.consumer_name
                and k.ks_tick = s.last_tick_id
    where n.queue_name = i_queue_name
    group by n.node_type, s.last_tick_id;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    -- Locked to the end: a session that ends the operation comes before or after all of this.
    select o.operation into v_kind
    from pgq_node.operation o
    where o.queue_name = i_queue_name and o.token = i_token
    for update;
    if not found then
        select 405, 'The change is not under way here any more' into ret_code, ret_note;
        return;
    end if;
    if v_type = 'root' then
        select 201, 'Node is root' into ret_code, ret_note;
        return;
    end if;
    if v_type = 'branch' and v_kind = 'takeover' and v_tick = i_tick_id and v_top < v_tick then
        select * into v_queue from pgq.queue where queue_name = i_queue_name;
        -- Its events were written in one transaction, after the tick before.
        execute format('select max(ev_id) from %s where ev_txid >= (select'
            || ' txid_snapshot_xmin(t.tick_snapshot) from pgq.tick t'
            || ' where t.tick_queue = $1 and t.tick_id = $2)', pgq.quote_fqname(v_queue.queue_data_pfx))
        into v_event
        using v_queue.queue_id, v_top;
        perform pgq.ticker(i_queue_name, v_tick, coalesce(v_time, now()), coalesce(greatest(v_event, t.tick_event_seq), 0))
        from pgq.tick t
        where t.tick_queue = v_queue.queue_id and t.tick_id = v_top;
        v_top := v_tick;
    end if;
    if v_type = 'branch' and (v_tick, v_top) is distinct from (i_tick_id, i_tick_id) then
        select 405, format('Branch is at tick %s, its queue at tick %s, not at tick %s',
            v_tick, v_top, i_tick_id) into ret_code, ret_note;
        return;
    end if;
    -- The next steps need it, and the old root may be unreachable.
    update pgq_node.operation o
    set last_tick = i_tick_id
    where o.queue_name = i_queue_name;
    select p.ret_code, p.ret_note into ret_code, ret_note from pgq_node.promote_branch(i_queue_name) p;
end;
$$;
