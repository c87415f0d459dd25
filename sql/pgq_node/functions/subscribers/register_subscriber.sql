create or replace function pgq_node.register_subscriber(
    i_queue_name text,
    i_remote_node_name text,
    i_remote_worker_name text,
    i_custom_tick_id int8,
    out ret_code int4,
    out ret_note text,
    out global_watermark int8)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Registers another node as a subscriber of this node.
 *
 * i_custom_tick_id -- start position of the subscriber's worker; NULL: the global watermark, the
 *     oldest tick that every node still has.
 *
 * A marker consumer '.<node>.watermark' keeps all later events until the subscriber reports
 * progress.
 *
 * ret_code -- 200 registered, also when it was before (the position is set again); 400 it is this node;
 *     401 a leaf has no subscribers; 404 this database is no node of the queue, or location of the subscriber not
 *     registered.
 */
declare
    v_type text;
    v_name text;
    v_marker text := '.' || i_remote_node_name || '.watermark';
begin
    -- The row lock keeps the type as it is until commit.
    select n.node_type, n.node_name into v_type, v_name
    from pgq_node.node_info n
    where n.queue_name = i_queue_name
    for share;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if v_type = 'leaf' then
        select 401, 'Leaf node cannot have subscribers' into ret_code, ret_note;
        return;
    end if;
    if v_name = i_remote_node_name then
        select 400, 'A node is no subscriber of itself: ' || v_name into ret_code, ret_note;
        return;
    end if;
    perform 1 from pgq_node.node_location l
    where l.queue_name = i_queue_name and l.node_name = i_remote_node_name;
    if not found then
        select 404, 'Location not registered: ' || coalesce(i_remote_node_name, 'NULL')
            into ret_code, ret_note;
        return;
    end if;

    select c.last_tick into global_watermark
    from pgq.get_consumer_info(i_queue_name, '.global_watermark') c;

    -- The rights on an existing consumer, whichever role owns it.
    perform pgq._require_owner(q.queue_id, c.co_id, 'move')
    from pgq.queue as q
        join pgq.registration as r on r.sub_queue = q.queue_id
        join pgq.consumer as c on c.co_id = r.sub_consumer
    where q.queue_name = i_queue_name and c.co_name in (v_marker, i_remote_worker_name);
    perform pgq.register_consumer_at(i_queue_name, v_marker, global_watermark);
    perform pgq.register_consumer_at(i_queue_name, i_remote_worker_name,
        coalesce(i_custom_tick_id, global_watermark));
    insert into pgq_node.subscriber_info
        (queue_name, subscriber_node, worker_name, watermark_name)
    values
        (i_queue_name, i_remote_node_name, i_remote_worker_name, v_marker)
    on conflict (queue_name, subscriber_node) do update
        set worker_name = excluded.worker_name,
            watermark_name = excluded.watermark_name;

    perform pgq_node._keep_consumer(i_queue_name, v_marker);
    perform pgq_node._keep_consumer(i_queue_name, i_remote_worker_name);

    select 200, 'Subscriber registered: ' || i_remote_node_name into ret_code, ret_note;
end;
$$;
