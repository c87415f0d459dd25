create or replace function pgq_node.set_subscriber_watermark(
    i_queue_name text,
    i_node_name text,
    i_watermark int8,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the tick that a subscriber and all nodes below it have finished.
 *
 * Raises 42501 unless the session may move the subscriber's marker.
 *
 * ret_code -- 200 moved; 100 unchanged; 404 not a subscriber; 405 backwards.
 */
declare
    v_marker text;
    v_now int8;
begin
    select s.watermark_name, i.last_tick into v_marker, v_now
    from pgq_node.subscriber_info s,
        lateral pgq.get_consumer_info(s.queue_name, s.watermark_name) i
    where s.queue_name = i_queue_name and s.subscriber_node = i_node_name
    -- A subscriber that is removed at this time would leave a marker that no session moves.
    for key share of s;
    if not found then
        select 404, 'Node not subscribed to queue: ' || coalesce(i_queue_name, 'NULL') || '/'
            || coalesce(i_node_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    perform pgq._require_owner(q.queue_id, c.co_id, 'move')
    from pgq.queue as q, pgq.consumer as c
    where q.queue_name = i_queue_name and c.co_name = v_marker;
    if i_watermark < v_now then
        select 405, i_node_name || ': watermark must not be moved backwards from '
            || v_now::text || ' to ' || i_watermark::text into ret_code, ret_note;
        return;
    end if;
    if i_watermark = v_now then
        select 100, i_node_name || ' already has watermark ' || i_watermark::text
            into ret_code, ret_note;
        return;
    end if;
    perform pgq.register_consumer_at(i_queue_name, v_marker, i_watermark);
    select 200, i_node_name || ' watermark set to ' || i_watermark::text into ret_code, ret_note;
end;
$$;
