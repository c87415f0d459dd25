create or replace function pgq_coop._lock_subconsumer(
    i_queue_id int4,
    i_sub_id int4,
    i_name text,
    out sub_consumer int4,
    out sub_last_tick int8,
    out sub_active timestamptz,
    out sub_batch int8,
    out sub_next_tick int8
)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Locks the subscription with a number and a name until the transaction ends; all null if none.
 *
 * Raises 42501 unless the session may use it.
 */
declare
    v_consumer_id int4;
    v_sub record;
begin
    select s.sub_consumer
    into v_consumer_id
    from pgq.registration s
    join pgq.consumer c on c.co_id = s.sub_consumer
    where s.sub_queue = i_queue_id and s.sub_id = i_sub_id and c.co_name = i_name;
    select l.* into v_sub from pgq._lock_subscription(i_queue_id, v_consumer_id) l;
    if v_sub.sub_consumer is not null then
        perform pgq._require_owner(i_queue_id, v_consumer_id, 'use');
    end if;
    if v_sub.sub_id = i_sub_id then
        sub_consumer := v_sub.sub_consumer;
        sub_last_tick := v_sub.sub_last_tick;
        sub_active := v_sub.sub_active;
        sub_batch := v_sub.sub_batch;
        sub_next_tick := v_sub.sub_next_tick;
    end if;
end;
$$;
