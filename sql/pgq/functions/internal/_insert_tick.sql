create or replace function pgq._insert_tick(i_queue pgq.queue, i_snapshot txid_snapshot)
returns int8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Inserts the next tick of a queue whose row the caller has locked.  Returns its id.
 *
 * i_snapshot -- null: the snapshot of this function's own statement, which is taken after
 *     the lock was granted.
 */
declare
    v_tick_id int8;
begin
    perform pgq._make_commit_durable();
    -- The sequence is read under the snapshot that the statement has taken already, so no event
    -- that the snapshot sees has a higher id.
    insert into pgq.tick (tick_queue, tick_id, tick_snapshot, tick_event_seq)
    values (
        (i_queue).queue_id,
        nextval((i_queue).queue_tick_seq),
        coalesce(i_snapshot, txid_current_snapshot()),
        pgq._last_taken((i_queue).queue_event_seq)
    )
    returning tick_id into v_tick_id;
    perform pg_notify('pgq_tick', left((i_queue).queue_name, 1000));
    return v_tick_id;
end;
$$;
