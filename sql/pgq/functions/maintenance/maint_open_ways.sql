create or replace function pgq.maint_open_ways()
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Tells producers the current table of queues whose events are neither refused nor counted, so that they need not look at the
 * row of the queue.  Always returns 0.
 *
 * See _close_way() for why that is safe.  Does nothing in a transaction that has changed queues itself, for
 * that is not committed, and passes over those that somebody else is changing: the next maintenance
 * comes.  Waits for no lock.
 */
declare
    v_queue pgq.queue;
    v_id int4;
begin
    -- Another level would see rows as they were.
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
