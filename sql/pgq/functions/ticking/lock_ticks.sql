create or replace function pgq.lock_ticks(i_queue_name text)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Locks a queue against ticks and rotation by other sessions until this transaction ends.
 *
 * Returns the newest tick; null when there is none.
 *
 * Use it with tick_at_snapshot(): this session then creates a tick at a snapshot that another
 * session takes after the lock.
 */
declare
    v_queue_id int4;
begin
    -- FOR NO KEY UPDATE: ticks exclude each other, but do not wait for transactions that
    -- refer to the queue by a foreign key (open retries and registrations).
    select queue_id
    into v_queue_id
    from pgq.queue
    where queue_name = i_queue_name
    for no key update;
    perform pgq._require_ticks(i_queue_name);
    return (select max(tick_id) from pgq.tick where tick_queue = v_queue_id);
end;
$$;
