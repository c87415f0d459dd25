create or replace function pgq_node.cancel_operation(
    i_queue_name text,
    i_token uuid,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Cancels an operation on the node that was to become the root, so that it cannot any more.
 *
 * ret_code -- 200 cancelled, now or before; 404 this database is no node of the queue; 405 the
 *     operation has already made the node the root.
 */
declare
    v_type text;
begin
    -- promote_node() locks the row of the operation until it has committed.
    perform 1
    from pgq_node.operation o
    where o.queue_name = i_queue_name and o.token = i_token
    for update;
    select n.node_type into v_type from pgq_node.node_info n where n.queue_name = i_queue_name;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if v_type = 'root' then
        select 405, 'Node has become the root' into ret_code, ret_note;
        return;
    end if;
    delete from pgq_node.operation o where o.queue_name = i_queue_name and o.token = i_token;
    select 200, 'Cancelled' into ret_code, ret_note;
end;
$$;
