create or replace function pgq_node.get_worker_state(
    i_queue_name text,
    out ret_code int4,
    out ret_note text,
    out node_type text,
    out node_name text,
    out completed_tick int8,
    out provider_node text,
    out provider_location text,
    out paused boolean,
    out uptodate boolean,
    out cur_error text,
    out worker_name text,
    out global_watermark int8,
    out local_watermark int8,
    out local_queue_top int8,
    out combined_queue text,
    out combined_type text)
returns record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns all that a worker needs before its next batch, in one call.
 *
 * completed_tick -- tick up to which all events are applied in this database.
 * local_queue_top -- newest tick of the local queue; NULL on a leaf.
 *
 * ret_code -- 100 found; 404 this database is no node of the queue (all other columns NULL).
 *
 * Its queries are few and simple: the role of a worker discards all plans of the session, so they
 * are planned again for each batch.
 */
begin
    select 100, 'Ok', n.node_type, n.node_name, n.worker_name, n.combined_queue
        into ret_code, ret_note, node_type, node_name, worker_name, combined_queue
    from pgq_node.node_info n
    where n.queue_name = i_queue_name;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;

    -- The position of a leaf's worker is its watermark, too.
    select s.last_tick_id, s.last_tick_id, s.paused, s.uptodate, s.cur_error,
           s.provider_node, l.node_location
        into completed_tick, local_watermark, paused, uptodate, cur_error,
             provider_node, provider_location
    from pgq_node.local_state s
        left join pgq_node.node_location l
            on l.queue_name = s.queue_name and l.node_name = s.provider_node
    where s.queue_name = i_queue_name and s.consumer_name = worker_name;
    if not found then
        select 404, 'Worker not registered: ' || worker_name into ret_code, ret_note;
        return;
    end if;

    if node_type <> 'leaf' then
        select w.queue_top, w.global_watermark, w.local_watermark
            into local_queue_top, global_watermark, local_watermark
        from pgq_node._watermarks(i_queue_name) w;
    elsif combined_queue is not null then
        select n.node_type into combined_type
        from pgq_node.node_info n
        where n.queue_name = get_worker_state.combined_queue;
    end if;
end;
$$;
