create or replace function pgq._lock_subscription(i_queue_id int4, i_consumer_id int4)
returns pgq.registration
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Locks a subscription until the transaction ends, and returns it with its current position.
 *
 * Null if there is none.  It does what select ... for update did on the table.  On the view that
 * locks as well, but returns the position from before the wait for the lock.
 */
declare
    v_sub pgq.registration;
begin
    select r.*
    into v_sub
    from pgq.registration r
    where r.sub_queue = i_queue_id and r.sub_consumer = i_consumer_id
    for update;
    if not found then
        return null;
    end if;
    return pgq._position(v_sub);
end;
$$;
