create or replace function pgq_node.promote_branch(
    i_queue_name text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes a branch the root: it accepts events and creates ticks from now on.
 *
 * The caller must make sure that no producer writes on another root of the queue: see promote_node().
 *
 * ret_code -- 200 is the root now; 301 not a branch; 404 this database is no node of the queue.
 */
declare
    v_node pgq_node.node_info;
    v_queue pgq.queue;
    v_tick pgq.tick;
    v_newest int8;
begin
    select * into v_node from pgq_node.node_info where queue_name = i_queue_name for update;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if v_node.node_type <> 'branch' then
        select 301, 'Node is not branch: ' || v_node.node_type into ret_code, ret_note;
        return;
    end if;

    update pgq.queue
    set queue_disable_insert = false,
        queue_external_ticker = false
    where queue_name = i_queue_name
    returning * into v_queue;
    perform pgq_node._fence(i_queue_name, false);
    select * into v_tick
    from pgq.tick t
    where t.tick_queue = v_queue.queue_id
    order by t.tick_id desc
    limit 1;
    -- New events and ticks must come after those of the old root.  If a process died before the tick
    -- of the events that it had written, only the events show their ids.  Reading them takes long, so
    -- only in that case.
    if exists (
        select from pgq_node.local_state s
        where s.queue_name = i_queue_name and s.consumer_name = v_node.worker_name
            and s.last_tick_id <> v_tick.tick_id)
    then
        execute format('select max(ev_id) from %s', pgq.quote_fqname(v_queue.queue_data_pfx))
            into v_newest;
    end if;
    perform pgq.seq_setval(v_queue.queue_tick_seq, v_tick.tick_id);
    perform pgq.seq_setval(v_queue.queue_event_seq, greatest(v_newest, v_tick.tick_event_seq));

    update pgq_node.node_info
    set node_type = 'root'
    where queue_name = i_queue_name;
    update pgq_node.local_state
    set provider_node = v_node.node_name,
        last_tick_id = v_tick.tick_id,
        uptodate = false
    where queue_name = i_queue_name and consumer_name = v_node.worker_name;
    perform pgq.forget_known_sources(i_queue_name, v_node.worker_name);
    select 200, 'Branch node promoted to root' into ret_code, ret_note;
end;
$$;
