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
 * Raises 42501 unless the session may move the worker of the subscriber.
 *
 * 200 noted; 304 it is no subscriber.
 */
begin
    if i_event_id is null then
        raise exception using
            errcode = 'LD005',
            message = 'Invalid NULL value',
            hint = 'set i_event_id';
    end if;
    perform pgq._require_owner(q.queue_id, c.co_id, 'move')
    from pgq_node.subscriber_info as s
        join pgq.queue as q on q.queue_name = s.queue_name
        join pgq.consumer as c on c.co_name in (s.worker_name, s.watermark_name)
    where s.queue_name = i_queue_name and s.subscriber_node = i_node_name;
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
