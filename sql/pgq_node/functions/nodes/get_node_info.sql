create or replace function pgq_node.get_node_info(
    i_queue_name text,
    out ret_code int4,
    out ret_note text,
    out node_type text,
    out node_name text,
    out global_watermark int8,
    out local_watermark int8,
    out provider_node text,
    out provider_location text,
    out combined_queue text,
    out combined_type text,
    out worker_name text,
    out worker_paused boolean,
    out worker_uptodate boolean,
    out worker_last_tick int8,
    out node_attrs text,
    out target_for text[])
returns record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns type, provider, worker and positions of this database as a node of the queue.
 *
 * local_watermark -- tick that this node and all nodes below it have finished.  On root and branch:
 *     the lowest position of all consumers except '.global_watermark'.  On a leaf: the position of
 *     its worker.
 * worker_last_tick -- on a root its newest tick.
 *
 * ret_code -- 100 found; 404 this database is no node of the queue (all other columns NULL).
 */
declare
    v_top int8;
begin
    select n.node_type, n.node_name, n.worker_name, n.combined_queue, n.node_attrs,
           s.provider_node, l.node_location, s.paused, s.uptodate, s.last_tick_id,
           c.node_type
        into node_type, node_name, worker_name, combined_queue, node_attrs,
             provider_node, provider_location, worker_paused, worker_uptodate, worker_last_tick,
             combined_type
    from pgq_node.node_info n
        left join pgq_node.local_state s
            on s.queue_name = n.queue_name and s.consumer_name = n.worker_name
        left join pgq_node.node_location l
            on l.queue_name = s.queue_name and l.node_name = s.provider_node
        left join pgq_node.node_info c on c.queue_name = n.combined_queue
    where n.queue_name = i_queue_name;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;

    if node_type in ('root', 'branch') then
        select w.queue_top, w.global_watermark, w.local_watermark
            into v_top, global_watermark, local_watermark
        from pgq_node._watermarks(i_queue_name) w;
        if node_type = 'root' then
            worker_last_tick := v_top;
        end if;
    else
        local_watermark := worker_last_tick;
    end if;

    select array_agg(p.queue_name order by p.queue_name) into target_for
    from pgq_node.node_info p
    where p.combined_queue = i_queue_name;

    select 100, 'Ok' into ret_code, ret_note;
end;
$$;
