create or replace function pgq_node.register_consumer(
    i_queue_name text,
    i_consumer_name text,
    i_provider_node text,
    i_custom_tick_id int8,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Registers a cascaded consumer with its position in this database.
 *
 * An existing consumer gets the new provider and the new position.
 *
 * ret_code -- 200 new; 201 existed; 404 this database is no node of the queue, or unknown provider.
 */
declare
    v_new boolean;
begin
    perform 1 from pgq_node.node_info n where n.queue_name = i_queue_name;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    perform 1 from pgq_node.node_location l
    where l.queue_name = i_queue_name and l.node_name = i_provider_node;
    if not found then
        select 404, 'Unknown node: ' || coalesce(i_queue_name, 'NULL') || '/'
            || coalesce(i_provider_node, 'NULL') into ret_code, ret_note;
        return;
    end if;

    insert into pgq_node.local_state as s
        (queue_name, consumer_name, provider_node, last_tick_id)
    values
        (i_queue_name, i_consumer_name, i_provider_node, i_custom_tick_id)
    on conflict (queue_name, consumer_name) do update
        set provider_node = excluded.provider_node,
            last_tick_id = excluded.last_tick_id
    -- xmax distinguishes a new row from an updated one.
    returning s.xmax = 0 into v_new;
    if v_new then
        select 200, 'Consumer registered on node: ' || i_consumer_name into ret_code, ret_note;
    else
        select 201, 'Consumer already registered on node: ' || i_consumer_name
            into ret_code, ret_note;
    end if;
end;
$$;
