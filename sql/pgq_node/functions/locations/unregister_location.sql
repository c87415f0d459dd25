create or replace function pgq_node.unregister_location(
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
 * Deletes the location of a node, with its subscription to this node and the consumers of its copies.
 *
 * A node that is marked as failed is remembered as dropped: see was_dropped().
 *
 * The root sends the change to all nodes as event pgq.unregister-location.  It does so even when
 * the location is unknown on the root, because other nodes may still have it.
 *
 * ret_code -- 200 deleted; 301 not found; 403 the location of this node or of a provider of it.
 */
begin
    perform 1 from pgq_node.node_info n
    where n.queue_name = i_queue_name and n.node_name = i_node_name;
    if found then
        select 403, 'Cannot drop own location: ' || i_node_name into ret_code, ret_note;
        return;
    end if;
    perform 1 from pgq_node.local_state s
    where s.queue_name = i_queue_name and s.provider_node = i_node_name;
    if found then
        select 403, 'Cannot drop location of provider: ' || i_node_name into ret_code, ret_note;
        return;
    end if;

    perform pgq_node._forget_copies(i_queue_name, i_node_name);
    perform pgq_node.unregister_subscriber(i_queue_name, i_node_name);
    insert into pgq_node.dropped_node (queue_name, node_name, node_location)
    select l.queue_name, l.node_name, l.node_location
    from pgq_node.node_location l
        join pgq_node.node_info n on n.queue_name = l.queue_name
    where l.queue_name = i_queue_name and l.node_name = i_node_name and l.dead
    on conflict do nothing;
    delete from pgq_node.node_location
    where queue_name = i_queue_name and node_name = i_node_name;
    if found then
        select 200, 'Location unregistered' into ret_code, ret_note;
    else
        select 301, 'Location not found: ' || coalesce(i_queue_name, 'NULL') || '/'
            || coalesce(i_node_name, 'NULL') into ret_code, ret_note;
    end if;

    if exists (select from pgq_node.node_info n
               where n.queue_name = i_queue_name and n.node_type = 'root')
    then
        perform pgq._prove_event(i_queue_name,
            pgq._insert_event(i_queue_name, 'pgq.unregister-location', i_node_name,
                i_queue_name, null::text, null::text, null::text),
            'pgq.unregister-location');
    end if;
end;
$$;

create or replace function pgq_node.unregister_location(
    i_queue_name text,
    i_node_name text,
    i_event_id int8,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * The same, as event i_event_id of the root asks for it.
 *
 * 201 a node of that name was made below this one after the event: it stays.
 */
begin
    perform 1 from pgq_node.subscriber_info s
    where s.queue_name = i_queue_name
        and s.subscriber_node = i_node_name
        and s.since_event > i_event_id;
    if found then
        select 201, 'Node was made again: ' || i_node_name into ret_code, ret_note;
        return;
    end if;
    select u.ret_code, u.ret_note into ret_code, ret_note
    from pgq_node.unregister_location(i_queue_name, i_node_name) as u;
end;
$$;
