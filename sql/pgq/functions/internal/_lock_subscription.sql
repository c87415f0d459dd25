create or replace function pgq._lock_subscription(i_queue_id int4, i_consumer_id int4)
returns pgq.registration
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * A subscription with its position of now, locked until the end of the transaction; null if none.
 *
 * What select ... for update did on the table.  On the view it locks as well, but answers the
 * position of before the wait for the lock.
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
