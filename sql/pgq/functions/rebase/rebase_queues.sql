create or replace function pgq.rebase_queues(
    out queue_name text,
    out reason text,
    out ticks int8,
    out events int8,
    out unread int8,
    out arrived int8,
    out generation uuid
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes the queues of a restored database work on this server.
 *
 * Ticks, events and switches get transaction ids that fit this server.  Returns one row per queue
 * that needed this.
 *
 * Every consumer then gets the events that it had not finished when the dump was made, in the same
 * batches.  After them it gets the events inserted since the restore.  All changes are in the
 * caller's transaction; writers, tickers and rotation wait for it.  Set lock_timeout.
 *
 * Raises LD202 when the transaction ids of the server are too low.
 *
 * ticks, events -- number of rewritten rows.
 * unread -- number of events after the last tick, dumped with the database.
 * arrived -- number of events inserted on this server since the restore.
 * generation -- the new generation; positions stored in other databases are compared with it.
 */
declare
    v_queue pgq.queue;
    v_table text;
    v_needed boolean := false;
    v_since int8 := 0;
    v_limit int8;
begin
    perform pgq._require_read_committed();
    -- Ticks, rotation, new and dropped queues; registrations, too.  Reading continues.
    lock table pgq.queue in exclusive mode;
    for v_queue in select * from pgq.queue order by queue_id loop
        continue when pgq._rebase_reason(v_queue) is null;
        v_needed := true;
        for v_table in select t from pgq._event_tables(v_queue) as t loop
            execute format('lock table %s in exclusive mode', pgq.quote_fqname(v_table));
        end loop;
    end loop;
    if not v_needed then
        if not pgq._is_at_home() then
            perform pgq._remember_cluster();
        end if;
        return;
    end if;

    -- The snapshot of a statement that begins after all locks were granted.
    select txid_snapshot_xmin(txid_current_snapshot()) into v_limit;
    select pgq._full_xid(xmin)
    into v_since
    from pgq.cluster_identity
    where row_xmin <> xmin::text::int8;
    for v_queue in select * from pgq.queue order by queue_id loop
        reason := pgq._rebase_reason(v_queue);
        continue when reason is null;
        queue_name := v_queue.queue_name;
        select r.ticks, r.events, r.unread, r.arrived
        into ticks, events, unread, arrived
        from pgq._rebase_queue(v_queue, v_limit, coalesce(v_since, 0)) as r;
        update pgq.queue_generation g
        set gen_ended = now(),
            gen_last_tick = (
                select max(t.tick_id) from pgq.tick t where t.tick_queue = v_queue.queue_id
            )
        where g.gen_queue = v_queue.queue_id and g.gen_ended is null;
        insert into pgq.queue_generation as g (gen_queue)
        values (v_queue.queue_id)
        returning g.gen_id into generation;
        return next;
    end loop;
    perform pgq._remember_cluster();
end;
$$;
