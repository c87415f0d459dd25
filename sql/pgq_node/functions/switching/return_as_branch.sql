create or replace function pgq_node.return_as_branch(
    i_queue_name text,
    i_token uuid,
    i_new_provider text,
    i_tick_id int8,
    i_subscribers text[],
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Rejoins a failed root as a branch.
 *
 * The function deletes the events of its queue after the last common tick.  Its worker continues from
 * there at another provider.
 *
 * The same operation must have closed the root (close_root).  The caller must undo the effects of the
 * deleted events on the tables, in the same transaction or before.
 *
 * i_tick_id -- the last tick that this node and the other nodes have in common.
 * i_subscribers -- nodes that still read from this node, all at or before that tick.  The function
 *     ends other subscriptions, with the consumers of their copies.
 *
 * Other consumers that are after the tick are moved back to it.
 *
 * ret_code -- 200 is a branch now; 201 was one already; 404 this database is no node of the queue,
 *     unknown provider, or no such tick; 405 the root was not closed by this operation, or a
 *     subscriber is after the tick.
 */
declare
    v_node pgq_node.node_info;
    v_queue pgq.queue;
    v_snapshot pg_snapshot;
    v_last int8;
    v_name text;
    v_table text;
begin
    select * into v_node from pgq_node.node_info n where n.queue_name = i_queue_name for update;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if v_node.node_type = 'branch' then
        select 201, 'Node is branch' into ret_code, ret_note;
        return;
    end if;
    select o.last_tick into v_last
    from pgq_node.operation o
    where o.queue_name = i_queue_name and o.token = i_token;
    if v_last is null or v_node.node_type <> 'root' then
        select 405, 'Root is not closed by this change' into ret_code, ret_note;
        return;
    end if;
    perform 1 from pgq_node.node_location l
    where l.queue_name = i_queue_name and l.node_name = i_new_provider;
    if not found then
        select 404, 'Unknown node: ' || coalesce(i_new_provider, 'NULL') into ret_code, ret_note;
        return;
    end if;
    -- No session creates ticks now; rotation is blocked.
    select * into v_queue from pgq.queue where queue_name = i_queue_name for no key update;
    select t.tick_snapshot::text::pg_snapshot into v_snapshot
    from pgq.tick t
    where t.tick_queue = v_queue.queue_id and t.tick_id = i_tick_id;
    if not found then
        select 404, 'No tick ' || coalesce(i_tick_id::text, 'NULL') into ret_code, ret_note;
        return;
    end if;

    for v_name in
        select s.subscriber_node
        from pgq_node.subscriber_info s
        where s.queue_name = i_queue_name
            and s.subscriber_node <> all (coalesce(i_subscribers, '{}'))
        order by 1
    loop
        perform pgq.unregister_consumer(i_queue_name, c.consumer_name)
        from pgq_node.subscriber_info s, pgq.get_consumer_info(i_queue_name) c
        where s.queue_name = i_queue_name and s.subscriber_node = v_name
            and starts_with(c.consumer_name, s.worker_name || '.copy.');
        perform pgq_node.unregister_subscriber(i_queue_name, v_name);
    end loop;
    select s.subscriber_node into v_name
    from pgq_node.subscriber_info s, pgq.get_consumer_info(i_queue_name, s.worker_name) c
    where s.queue_name = i_queue_name and c.last_tick > i_tick_id;
    if found then
        select 405, format('Subscriber %s has read behind tick %s', v_name, i_tick_id)
            into ret_code, ret_note;
        return;
    end if;
    perform pgq.register_consumer_at(i_queue_name, c.consumer_name, i_tick_id)
    from pgq.get_consumer_info(i_queue_name) c
    where c.last_tick > i_tick_id;
    update pgq_node.local_state s
    set last_tick_id = i_tick_id
    where s.queue_name = i_queue_name and s.last_tick_id > i_tick_id;

    for v_table in select pgq.quote_fqname(name) from pgq._event_tables(v_queue) as name loop
        perform pgq._identify_rows(v_table);
        -- The first condition is for the index.
        execute format(
            'delete from only %s where ev_txid >= %s'
            ' and not pg_visible_in_snapshot(ev_txid::text::xid8, %L)',
            v_table, pg_snapshot_xmin(v_snapshot), v_snapshot);
    end loop;
    delete from pgq.tick t
    where t.tick_queue = v_queue.queue_id and t.tick_id > i_tick_id;

    update pgq_node.node_info
    set node_type = 'branch'
    where queue_name = i_queue_name;
    update pgq_node.local_state
    set provider_node = i_new_provider,
        last_tick_id = i_tick_id,
        cur_error = null,
        uptodate = false
    where queue_name = i_queue_name and consumer_name = v_node.worker_name;
    -- Of other consumers, too: ticks with the same numbers will come from the new provider.
    perform pgq.forget_known_sources(i_queue_name, null::text);
    select 200, format('Root is branch below %s, at tick %s', i_new_provider, i_tick_id)
        into ret_code, ret_note;
end;
$$;
