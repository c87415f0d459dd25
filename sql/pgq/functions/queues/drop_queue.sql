create or replace function pgq.drop_queue(x_queue_name text, x_force boolean)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Drops a queue with its tables, sequences, ticks, keys and all waiting events.  Returns 1.
 *
 * x_force -- true: unregister the consumers of the queue first.  false or null: a queue that has
 *     consumers is an error (LD104).
 *
 * The queue of a root or branch is an error (LD100): captures write into it.  drop_node() drops it.
 *
 * Waits for transactions that are writing to the queue.
 */
declare
    v_queue pgq.queue;
    v_node text;
    v_consumer text;
    v_consumers text[];
    v_table text;
begin
    select * into v_queue from pgq.queue where queue_name = x_queue_name for update;
    if not found then
        perform pgq._raise_no_queue('No such event queue', x_queue_name);
    end if;
    if pgq._component_has('pgq_node.node_info') then
        execute 'select n.node_name from pgq_node.node_info n'
            ' where n.queue_name = $1 and n.node_type in (''root'', ''branch'')'
            into v_node using x_queue_name;
    end if;
    if v_node is not null then
        raise exception using
            errcode = 'LD100',
            message = format('queue %s belongs to node %s of a cascade', x_queue_name, v_node),
            detail = 'without it writes to replicated tables fail, and nodes below get no events',
            hint = 'drop the node, and its queue with it: londiste drop-node NODE';
    end if;

    select array_agg(c.co_name order by c.co_name)
    into v_consumers
    from pgq.registration s
    join pgq.consumer c on c.co_id = s.sub_consumer
    where s.sub_queue = v_queue.queue_id;

    if v_consumers is not null and not coalesce(x_force, false) then
        raise exception using
            errcode = 'LD104',
            message = 'cannot drop queue, consumers still attached',
            detail = format('consumers of %s: %s', x_queue_name, array_to_string(v_consumers, ', ')),
            hint = 'unregister them, or drop with force: '
                || format('select pgq.drop_queue(%L, true)', x_queue_name);
    end if;
    foreach v_consumer in array coalesce(v_consumers, '{}') loop
        perform pgq.unregister_consumer(x_queue_name, v_consumer);
    end loop;

    for v_table in select t from pgq._event_tables(v_queue) as t loop
        execute 'drop table ' || pgq.quote_fqname(v_table);
    end loop;
    execute 'drop table ' || pgq.quote_fqname(v_queue.queue_data_pfx);

    delete from pgq.tick where tick_queue = v_queue.queue_id;
    delete from pgq.retry_queue where ev_queue = v_queue.queue_id;
    delete from pgq.failed_queue where ev_queue = v_queue.queue_id;
    delete from pgq.delayed_event where ev_queue = v_queue.queue_id;
    delete from pgq.event_key where key_queue = v_queue.queue_id;
    delete from pgq.control_event where ev_queue = v_queue.queue_id;
    execute 'drop sequence ' || pgq.quote_fqname(v_queue.queue_tick_seq);
    execute 'drop sequence ' || pgq.quote_fqname(v_queue.queue_event_seq);
    execute 'drop sequence if exists ' || pgq._way_seq(v_queue);
    delete from pgq.queue where queue_id = v_queue.queue_id;
    perform pgq._generate_store_event();
    return 1;
end;
$$;

create or replace function pgq.drop_queue(x_queue_name text)
returns int4
language sql
strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * Without x_force, the function drops only a queue that has no consumers.
 */
    select pgq.drop_queue(x_queue_name, false);
$$;
