create or replace function pgq_node.become_branch(
    i_queue_name text,
    i_token uuid,
    i_new_provider text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes a root that close_root() has closed a branch of the new root.
 *
 * ret_code -- 200 is a branch now; 201 was one already; 404 this database is no node of the queue,
 *     or unknown provider; 405 the root was not closed by this operation.
 */
declare
    v_node pgq_node.node_info;
    v_tick int8;
begin
    select * into v_node from pgq_node.node_info where queue_name = i_queue_name for update;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if v_node.node_type = 'branch' then
        select 201, 'Node is branch' into ret_code, ret_note;
        return;
    end if;
    select o.last_tick into v_tick
    from pgq_node.operation o
    where o.queue_name = i_queue_name and o.token = i_token;
    if v_tick is null or v_node.node_type <> 'root' then
        select 405, 'Root is not closed by this change' into ret_code, ret_note;
        return;
    end if;
    perform 1 from pgq_node.node_location l
    where l.queue_name = i_queue_name and l.node_name = i_new_provider;
    if not found then
        select 404, 'Unknown node: ' || coalesce(i_new_provider, 'NULL') into ret_code, ret_note;
        return;
    end if;
    update pgq_node.node_info
    set node_type = 'branch'
    where queue_name = i_queue_name;
    update pgq_node.local_state
    set provider_node = i_new_provider,
        last_tick_id = v_tick,
        uptodate = false
    where queue_name = i_queue_name and consumer_name = v_node.worker_name;
    perform pgq.forget_known_sources(i_queue_name, v_node.worker_name);
    select 200, 'Root is branch now' into ret_code, ret_note;
end;
$$;
