create or replace function pgq_node.drop_node(
    i_queue_name text,
    i_node_name text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Deletes a node from this database.
 *
 * On the node itself the function drops its queue and everything that refers to the node row
 * (replicated tables, their triggers).
 *
 * ret_code -- 200 dropped; 405 the node is the provider of this one, or local queues merge into its
 *     queue.
 */
declare
    v_local text;
    v_type text;
    v_parts text;
begin
    select n.node_name, n.node_type into v_local, v_type
    from pgq_node.node_info n
    where n.queue_name = i_queue_name;

    if v_local is not null and v_local <> i_node_name then
        perform 1 from pgq_node.local_state s
        where s.queue_name = i_queue_name and s.provider_node = i_node_name;
        if found then
            select 405, 'Cannot drop provider node of ' || v_local || ': ' || i_node_name
                into ret_code, ret_note;
            return;
        end if;
        perform pgq_node._forget_copies(i_queue_name, i_node_name);
        perform pgq_node.unregister_subscriber(i_queue_name, i_node_name);
    else
        select string_agg(p.queue_name, ', ' order by p.queue_name) into v_parts
        from pgq_node.node_info p
        where p.combined_queue = i_queue_name;
        if v_parts is not null then
            select 405, 'Queues merge into ' || i_queue_name || ' here: ' || v_parts
                into ret_code, ret_note;
            return;
        end if;
        delete from pgq_node.subscriber_info where queue_name = i_queue_name;
        delete from pgq_node.local_state where queue_name = i_queue_name;
        delete from pgq_node.node_info where queue_name = i_queue_name;
        perform 1 from pgq.queue q where q.queue_name = i_queue_name;
        if found and v_type in ('root', 'branch') then
            perform pgq.drop_queue(i_queue_name, true);
        end if;
        delete from pgq_node.node_location
        where queue_name = i_queue_name and node_name <> i_node_name;
    end if;

    perform pgq_node.unregister_location(i_queue_name, i_node_name);
    select 200, 'Node dropped: ' || i_node_name into ret_code, ret_note;
end;
$$;
