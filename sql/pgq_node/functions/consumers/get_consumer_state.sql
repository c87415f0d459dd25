create or replace function pgq_node.get_consumer_state(
    i_queue_name text,
    i_consumer_name text,
    out ret_code int4,
    out ret_note text,
    out node_type text,
    out node_name text,
    out completed_tick int8,
    out provider_node text,
    out provider_location text,
    out paused boolean,
    out uptodate boolean,
    out cur_error text)
returns record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns position and flags of one cascaded consumer of this node.
 *
 * ret_code -- 100 found; 404 this database is no node of the queue, unknown consumer, or provider
 *     without location.
 */
begin
    select n.node_type, n.node_name into node_type, node_name
    from pgq_node.node_info n
    where n.queue_name = i_queue_name;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    select s.last_tick_id, s.provider_node, s.paused, s.uptodate, s.cur_error
        into completed_tick, provider_node, paused, uptodate, cur_error
    from pgq_node.local_state s
    where s.queue_name = i_queue_name and s.consumer_name = i_consumer_name;
    if not found then
        select 404, 'Unknown consumer: ' || i_queue_name || '/'
            || coalesce(i_consumer_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    select l.node_location into provider_location
    from pgq_node.node_location l
    where l.queue_name = i_queue_name and l.node_name = provider_node;
    if not found then
        select 404, 'Unknown provider node: ' || i_queue_name || '/' || provider_node
            into ret_code, ret_note;
        return;
    end if;
    select 100, 'Ok' into ret_code, ret_note;
end;
$$;
