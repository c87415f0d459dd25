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
 */
begin
    select i.ret_code, i.ret_note, i.node_type, i.node_name, i.provider_node,
           i.provider_location, i.worker_name, i.global_watermark, i.local_watermark,
           i.combined_queue, i.combined_type
        into ret_code, ret_note, node_type, node_name, provider_node,
             provider_location, worker_name, global_watermark, local_watermark,
             combined_queue, combined_type
    from pgq_node.get_node_info(i_queue_name) i;
    if ret_code <> 100 then
        return;
    end if;

    select s.last_tick_id, s.paused, s.uptodate, s.cur_error
        into completed_tick, paused, uptodate, cur_error
    from pgq_node.local_state s
    where s.queue_name = i_queue_name and s.consumer_name = worker_name;
    if not found then
        select 404, 'Worker not registered: ' || worker_name into ret_code, ret_note;
        return;
    end if;

    if node_type in ('root', 'branch') then
        select max(t.tick_id) into local_queue_top
        from pgq.queue q join pgq.tick t on t.tick_queue = q.queue_id
        where q.queue_name = i_queue_name;
    end if;
end;
$$;
