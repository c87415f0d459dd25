create or replace function pgq_node.get_consumer_hold(
    i_queue_name text,
    i_consumer_name text,
    out tick_id int8,
    out hold_until timestamptz)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the lowest tick at which a consumer must pause, and until when; NULL and NULL for none.
 *
 * Volatile on purpose: the clock decides, not the snapshot.
 */
begin
    select h.tick_id, h.hold_until
        into tick_id, hold_until
    from pgq_node.consumer_hold h
    where h.queue_name = i_queue_name
        and h.consumer_name = i_consumer_name
        and h.hold_until > clock_timestamp()
    order by h.tick_id, h.hold_until desc
    limit 1;
end;
$$;
