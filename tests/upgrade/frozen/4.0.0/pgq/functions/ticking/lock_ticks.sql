create or replace function pgq.lock_ticks(i_queue_name text)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Keeps everybody else from ticking or rotating the queue until this transaction ends.
 *
 * Returns the newest tick, null if there is none.  With tick_at_snapshot() a session makes a
 * tick at a snapshot that another session takes after this lock.
 */
declare
    v_queue_id int4;
begin
    -- For no key update: ticks exclude each other, but do not wait for transactions that
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
