create or replace function pgq_node.set_subscriber_since(
    i_queue_name text,
    i_node_name text,
    i_event_id int8,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Notes that a subscriber was made after event i_event_id of the root.
 *
 * An earlier node of that name may have been dropped, and this node may not have heard it yet.
 *
 * 200 noted; 304 it is no subscriber.
 */
begin
    update pgq_node.subscriber_info s
    set since_event = i_event_id
    where s.queue_name = i_queue_name and s.subscriber_node = i_node_name;
    if found then
        select 200, 'Subscriber noted: ' || i_node_name into ret_code, ret_note;
    else
        select 304, 'Subscriber not found: ' || coalesce(i_queue_name, 'NULL') || '/'
            || coalesce(i_node_name, 'NULL') into ret_code, ret_note;
    end if;
end;
$$;
