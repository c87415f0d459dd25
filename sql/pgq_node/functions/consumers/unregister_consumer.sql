create or replace function pgq_node.unregister_consumer(
    i_queue_name text,
    i_consumer_name text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Deletes the position of a cascaded consumer from this database.
 *
 * ret_code -- 200 deleted, or there was none; 404 this database is no node of the queue.
 */
begin
    perform 1 from pgq_node.node_info n where n.queue_name = i_queue_name;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    delete from pgq_node.local_state
    where queue_name = i_queue_name and consumer_name = i_consumer_name;
    select 200, 'Consumer unregistered from node: ' || coalesce(i_consumer_name, 'NULL')
        into ret_code, ret_note;
end;
$$;
