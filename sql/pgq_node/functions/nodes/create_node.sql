create or replace function pgq_node.create_node(
    i_queue_name text,
    i_node_type text,
    i_node_name text,
    i_worker_name text,
    i_provider_name text,
    i_global_watermark int8,
    i_combined_queue text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes this database a node of the queue: creates queue, markers and position of the worker.
 *
 * The locations of the node and of its provider must be registered before.
 *
 * i_global_watermark -- start position of a branch or leaf: a tick that its provider still has.
 *
 * A root may have an existing queue: no node applies the events in it (_take_over_queue).
 *
 * ret_code -- 200 created; 401 already a node, or arguments that do not fit the type; 404 location
 *     not registered.
 */
declare
    v_tick int8;
    v_provider text := i_provider_name;
    v_note text;
begin
    perform 1 from pgq_node.node_info n where n.queue_name = i_queue_name;
    if found then
        select 401, 'Node already initialized' into ret_code, ret_note;
        return;
    end if;

    if i_node_type is null or i_node_type not in ('root', 'branch', 'leaf') then
        select 401, 'Unknown node type: ' || coalesce(i_node_type, 'NULL')
            into ret_code, ret_note;
        return;
    end if;
    if i_queue_name is null or i_node_name is null or i_worker_name is null then
        select 401, 'Queue, node and worker need a name' into ret_code, ret_note;
        return;
    end if;
    if i_node_type = 'root' and (i_provider_name is not null
        or i_global_watermark is not null or i_combined_queue is not null)
    then
        select 401, 'Root node takes no provider, watermark or combined queue'
            into ret_code, ret_note;
        return;
    end if;
    if i_node_type <> 'root' and (i_provider_name is null or i_global_watermark is null) then
        select 401, 'Node needs a provider and a global watermark' into ret_code, ret_note;
        return;
    end if;
    if i_node_type = 'branch' and i_combined_queue is not null then
        select 401, 'Branch node cannot merge into another queue' into ret_code, ret_note;
        return;
    end if;
    if i_combined_queue is not null then
        perform 1 from pgq_node.node_info n
        where n.queue_name = i_combined_queue and n.node_type in ('root', 'branch');
        if not found then
            select 401, 'Combined queue is not a root or branch here: ' || i_combined_queue
                into ret_code, ret_note;
            return;
        end if;
    end if;

    if i_node_type = 'root' then
        v_provider := i_node_name;
    end if;
    if (select count(*) from pgq_node.node_location l
        where l.queue_name = i_queue_name and l.node_name in (i_node_name, v_provider))
        < (case when v_provider = i_node_name then 1 else 2 end)
    then
        select 404, 'Location of node or provider not registered: '
            || i_node_name || ', ' || v_provider into ret_code, ret_note;
        return;
    end if;

    if i_node_type = 'root' then
        if pgq.create_queue(i_queue_name) = 0 then
            v_note := pgq_node._take_over_queue(i_queue_name);
            if v_note is not null then
                select 401, v_note into ret_code, ret_note;
                return;
            end if;
        end if;
        perform pgq.register_consumer(i_queue_name, '.global_watermark');
        select c.last_tick into v_tick
        from pgq.get_consumer_info(i_queue_name, '.global_watermark') c;
    elsif i_node_type = 'branch' then
        -- An existing queue has its own ticks: the same numbers would mean
        -- other events than on the provider.
        if pgq.create_queue(i_queue_name) = 0 then
            select 401, 'Queue already exists: ' || i_queue_name into ret_code, ret_note;
            return;
        end if;
        update pgq.queue
        set queue_external_ticker = true,
            queue_disable_insert = true
        where queue_name = i_queue_name;
        v_tick := i_global_watermark;
        if v_tick > 1 then
            perform pgq.ticker(i_queue_name, v_tick, now(), 1::int8);
        end if;
        perform pgq.register_consumer_at(i_queue_name, '.global_watermark', v_tick);
    else
        v_tick := i_global_watermark;
    end if;

    perform pgq_node._keep_consumer(i_queue_name, '.global_watermark');
    -- Positions of an earlier node in this database; the new node accepts its provider as it is.
    perform pgq.forget_known_sources(i_queue_name, null::text);
    insert into pgq_node.node_info
        (queue_name, node_type, node_name, worker_name, combined_queue)
    values
        (i_queue_name, i_node_type, i_node_name, i_worker_name, i_combined_queue);
    insert into pgq_node.local_state
        (queue_name, consumer_name, provider_node, last_tick_id)
    values
        (i_queue_name, i_worker_name, v_provider, v_tick);

    select 200, 'Node "' || i_node_name || '" initialized for queue "' || i_queue_name
        || '" with type "' || i_node_type || '"' into ret_code, ret_note;
end;
$$;
