create or replace function pgq_node.rename_node(
    i_queue_name text,
    i_old_name text,
    i_new_name text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Renames a node in this database.
 *
 * The function changes the locations, the local node, providers and subscribers, with the marker that
 * keeps events for the subscriber.  Call it on every node of the queue.  The root also writes the
 * change into the queue, for nodes that read the old name later.
 *
 * ret_code -- 200 renamed; 201 was renamed already; 301 the old name is unknown on this node; 404
 *     this database is no node of the queue; 405 the new name is in use.
 */
declare
    v_location pgq_node.node_location;
    v_marker text := '.' || i_new_name || '.watermark';
    v_old_marker text;
    v_tick int8;
begin
    perform 1 from pgq_node.node_info n where n.queue_name = i_queue_name for update;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    select * into v_location
    from pgq_node.node_location l
    where l.queue_name = i_queue_name and l.node_name = i_old_name
    for update;
    if not found then
        select 301, 'Unknown node: ' || coalesce(i_old_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    perform 1 from pgq_node.node_location l
    where l.queue_name = i_queue_name
        and l.node_name = i_new_name
        and l.node_location = v_location.node_location
        and not exists (
            select from pgq_node.node_info n
            where n.queue_name = i_queue_name and n.node_name = i_old_name)
        and not exists (
            select from pgq_node.local_state s
            where s.queue_name = i_queue_name and s.provider_node = i_old_name)
        and not exists (
            select from pgq_node.subscriber_info s
            where s.queue_name = i_queue_name and s.subscriber_node = i_old_name);
    if found then
        -- Older messages, read after the node was renamed on this node.
        perform pgq_node.unregister_location(i_queue_name, i_old_name);
        select 201, 'Node is renamed: ' || i_old_name || ' to ' || i_new_name into ret_code, ret_note;
        return;
    end if;
    perform 1 from pgq_node.node_location l
    where l.queue_name = i_queue_name and l.node_name = i_new_name;
    if found then
        select 405, 'Node exists already: ' || i_new_name into ret_code, ret_note;
        return;
    end if;

    perform pgq_node.register_location(
        i_queue_name, i_new_name, v_location.node_location, v_location.dead);
    update pgq_node.node_info
    set node_name = i_new_name
    where queue_name = i_queue_name and node_name = i_old_name;
    update pgq_node.local_state
    set provider_node = i_new_name
    where queue_name = i_queue_name and provider_node = i_old_name;
    update pgq.known_source
    set ks_source = i_new_name
    where ks_queue = i_queue_name and ks_source = i_old_name;
    update pgq.lost_position
    set lp_source = i_new_name
    where lp_queue = i_queue_name and lp_source = i_old_name;

    select s.watermark_name, c.last_tick into v_old_marker, v_tick
    from pgq_node.subscriber_info s,
        lateral pgq.get_consumer_info(i_queue_name, s.watermark_name) c
    where s.queue_name = i_queue_name and s.subscriber_node = i_old_name;
    if found then
        perform pgq.register_consumer_at(i_queue_name, v_marker, v_tick);
        update pgq_node.subscriber_info
        set subscriber_node = i_new_name,
            watermark_name = v_marker
        where queue_name = i_queue_name and subscriber_node = i_old_name;
        perform pgq.unregister_consumer(i_queue_name, v_old_marker);
    end if;
    perform pgq_node.unregister_location(i_queue_name, i_old_name);
    select 200, 'Node renamed: ' || i_old_name || ' to ' || i_new_name into ret_code, ret_note;
end;
$$;
