create or replace function pgq_node.unregister_subscriber(
    i_queue_name text,
    i_remote_node_name text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Removes a subscriber of this node, with its consumer and its marker.
 *
 * ret_code -- 200 removed; 304 it was no subscriber.
 */
declare
    v_worker text;
    v_marker text;
begin
    delete from pgq_node.subscriber_info s
    where s.queue_name = i_queue_name and s.subscriber_node = i_remote_node_name
    returning s.worker_name, s.watermark_name into v_worker, v_marker;
    if not found then
        select 304, 'Subscriber not found: ' || coalesce(i_queue_name, 'NULL') || '/'
            || coalesce(i_remote_node_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    perform pgq.unregister_consumer(i_queue_name, v_marker);
    if v_worker is not null then
        perform pgq.unregister_consumer(i_queue_name, v_worker);
    end if;
    select 200, 'Subscriber unregistered: ' || i_remote_node_name into ret_code, ret_note;
end;
$$;
