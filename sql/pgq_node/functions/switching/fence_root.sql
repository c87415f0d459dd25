create or replace function pgq_node.fence_root(
    i_queue_name text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Fences a failed root: it refuses events because another node has become the root.
 *
 * The node stays a root, and keeps the events that no other node has read: see the command
 * resurrect.
 *
 * ret_code -- 200 fenced; 201 was fenced already; 301 not a root; 404 this database is no node of
 *     the queue.
 */
declare
    v_type text;
begin
    select n.node_type into v_type
    from pgq_node.node_info n
    where n.queue_name = i_queue_name
    for no key update;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if v_type <> 'root' then
        select 301, 'Node is not root: ' || v_type into ret_code, ret_note;
        return;
    end if;
    update pgq.queue
    set queue_disable_insert = true,
        queue_external_ticker = true
    where queue_name = i_queue_name
        and not (queue_disable_insert and queue_external_ticker);
    if not found then
        select 201, 'Root is closed' into ret_code, ret_note;
        return;
    end if;
    select 200, 'Root closed' into ret_code, ret_note;
end;
$$;
