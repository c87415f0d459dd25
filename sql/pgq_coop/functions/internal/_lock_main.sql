create or replace function pgq_coop._lock_main(
    i_queue_name text,
    i_consumer_name text,
    out sub_id int4,
    out sub_queue int4,
    out sub_consumer int4,
    out sub_batch int8,
    out sub_next_tick int8
)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Locks the subscription of a main consumer until the transaction ends; all null if there is none.
 *
 * Raises 42501 unless the session may use it, which releases the lock.
 *
 * A session that opens or takes over batches of this consumer's workers holds this lock.
 */
declare
    v_place record;
begin
    -- Found first and locked then: in one query the plan could lock more than it returns.
    select s.sub_queue, s.sub_consumer
    into v_place
    from pgq.queue q
    join pgq.registration s on s.sub_queue = q.queue_id
    join pgq.consumer c on c.co_id = s.sub_consumer
    where q.queue_name = i_queue_name and c.co_name = i_consumer_name;
    select l.sub_id, l.sub_queue, l.sub_consumer, l.sub_batch, l.sub_next_tick
    into sub_id, sub_queue, sub_consumer, sub_batch, sub_next_tick
    from pgq._lock_subscription(v_place.sub_queue, v_place.sub_consumer) l;
    if sub_consumer is not null then
        perform pgq._require_owner(sub_queue, sub_consumer, 'use');
    end if;
end;
$$;
