create or replace function pgq.maint_open_ways()
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Enables the fast path for producers of queues that neither refuse nor count events.  Returns 0.
 *
 * On the fast path a producer reads the current event table from a sequence, the queue's way, and
 * not from the row of the queue.  See _close_way() for why that is safe.
 *
 * The function does nothing in a transaction that has changed queues itself, because that change
 * is not committed.  It ignores queues that another session is changing; the next maintenance
 * opens them.  It waits for no lock.
 */
declare
    v_queue pgq.queue;
    v_id int4;
begin
    -- Another isolation level would see old versions of the rows.
    if current_setting('transaction_isolation') <> 'read committed'
        or current_setting('pgq.ways_closed', true) = '1'
    then
        return 0;
    end if;
    for v_id in
        select q.queue_id from pgq.queue q where pgq._way(q) <> coalesce(pgq._way_value(q), 0)
    loop
        select * into v_queue
        from pgq.queue
        where queue_id = v_id
        for no key update skip locked;
        continue when not found;
        perform setval(to_regclass(pgq._way_seq(v_queue)), pgq._way(v_queue), true);
    end loop;
    return 0;
end;
$$;
