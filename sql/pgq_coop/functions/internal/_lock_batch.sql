create or replace function pgq_coop._lock_batch(
    i_batch_id int8,
    out sub_queue int4,
    out sub_consumer int4,
    out sub_active timestamptz
)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Locks and returns the subscription of the worker that has a batch open; all null if there is none.
 *
 * Raises 42501 unless the session may use the worker.
 *
 * Waits for a takeover in progress, and then finds nothing.  No worker takes over a batch
 * whose worker holds this lock.
 */
declare
    v_sub pgq.registration;
begin
    v_sub := pgq._open_batch(i_batch_id);
    v_sub := pgq._lock_subscription(v_sub.sub_queue, v_sub.sub_consumer);
    if v_sub.sub_batch = i_batch_id
        and pgq._is_subconsumer(v_sub.sub_id, v_sub.sub_queue, v_sub.sub_consumer)
    then
        perform pgq._require_owner(v_sub.sub_queue, v_sub.sub_consumer, 'use');
        sub_queue := v_sub.sub_queue;
        sub_consumer := v_sub.sub_consumer;
        sub_active := v_sub.sub_active;
    end if;
end;
$$;
