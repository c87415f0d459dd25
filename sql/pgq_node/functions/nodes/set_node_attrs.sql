create or replace function pgq_node.set_node_attrs(
    i_queue_name text,
    i_node_attrs text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Replaces the attributes of the local node (url-encoded key=value pairs).
 *
 * ret_code -- 200 stored; 404 this database is no node of the queue.
 */
begin
    update pgq_node.node_info
    set node_attrs = i_node_attrs
    where queue_name = i_queue_name;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    select 200, 'Node attributes updated' into ret_code, ret_note;
end;
$$;
