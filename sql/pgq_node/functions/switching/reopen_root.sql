create or replace function pgq_node.reopen_root(
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
 * Undoes close_root(): the root accepts events and ticks again, and the operation is deleted.
 *
 * The caller must make sure that no other node has become the root, and that none can.  For that it
 * ends the operation on the other node, so that promote_node() refuses its token.
 *
 * ret_code -- 200 open; 201 was not closed; 301 not a root any more; 404 this database is no node
 *     of the queue; 405 this operation is not in progress on this node.
 */
declare
    v_type text;
    v_tick int8;
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
    delete from pgq_node.operation o
    where o.queue_name = i_queue_name and o.token = i_token
    returning o.last_tick into v_tick;
    if not found then
        select 405, 'The change is not under way here any more' into ret_code, ret_note;
        return;
    end if;
    if v_tick is null then
        select 201, 'Root was not closed' into ret_code, ret_note;
        return;
    end if;
    update pgq.queue
    set queue_disable_insert = false,
        queue_external_ticker = false
    where queue_name = i_queue_name;
    perform pgq_node._fence(i_queue_name, false);
    select 200, 'Root open' into ret_code, ret_note;
end;
$$;
