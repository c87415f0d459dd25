create or replace function pgq_node.set_global_watermark(
    i_queue_name text,
    i_watermark int8,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Moves the global watermark, the tick that all nodes have finished.  It never moves back.
 *
 * On the root, NULL means its own local watermark.  The root sends the new value to all nodes as
 * event pgq.global-watermark, and its worker moves there.  A branch skips a tick that does not
 * exist on it.  On a leaf and on a closed root the function has no effect.
 *
 * ret_code -- 200 moved or skipped; 100 leaf, ignored; 404 this database is no node of the queue; 500
 *     branch without a value.
 */
declare
    v_type text;
    v_worker text;
    v_local int8;
    v_now int8;
    v_new int8 := i_watermark;
begin
    select i.node_type, i.worker_name, i.local_watermark, i.global_watermark
        into v_type, v_worker, v_local, v_now
    from pgq_node.get_node_info(i_queue_name) i;
    if v_type is null then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if v_type = 'leaf' then
        select 100, 'Leaf node has no global watermark, ignored' into ret_code, ret_note;
        return;
    end if;
    if v_type = 'branch' then
        if v_new is null then
            select 500, 'Branch node needs a watermark' into ret_code, ret_note;
            return;
        end if;
        perform 1 from pgq.queue q join pgq.tick t on t.tick_queue = q.queue_id
        where q.queue_name = i_queue_name and t.tick_id = v_new;
        if not found then
            select 200, 'Tick does not exist here, skipping global watermark '
                || v_new::text into ret_code, ret_note;
            return;
        end if;
    end if;
    v_new := coalesce(v_new, v_local);
    if v_new <= v_now then
        select 200, 'Global watermark stays at ' || v_now::text || ', skipping '
            || v_new::text into ret_code, ret_note;
        return;
    end if;

    if v_type = 'root' and not pgq_node._root_takes_events(i_queue_name) then
        select 200, 'Root takes no events, global watermark stays at ' || v_now::text
            into ret_code, ret_note;
        return;
    end if;
    perform pgq.register_consumer_at(i_queue_name, '.global_watermark', v_new);
    if v_type = 'root' then
        perform pgq._prove_event(i_queue_name,
            pgq._insert_event(i_queue_name, 'pgq.global-watermark', v_new::text,
                i_queue_name, null::text, null::text, null::text),
            'pgq.global-watermark');
        update pgq_node.local_state
        set last_tick_id = v_new
        where queue_name = i_queue_name and consumer_name = v_worker;
    end if;
    select 200, 'Global watermark set to ' || v_new::text into ret_code, ret_note;
end;
$$;
