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
 * Makes the queues of a restored database work on this server: gives ticks, events and switches
 * transaction ids that fit.  Returns a row per queue that needed it, none if none did.
 *
 * Every consumer then gets exactly the events it had not finished when the dump was made, in
 * the same batches, and then those inserted since the restore.  All in the caller's transaction;
 * writers, tickers and rotation wait for it.  Set lock_timeout.  Raises LD202 where the server
 * is too young.
 *
 * ticks, events -- that were rewritten,
 * unread -- events behind the last tick, dumped with the database,
 * arrived -- events inserted here since the restore,
 * generation -- the new one: positions stored elsewhere are compared with it.
 */
declare
    v_queue pgq.queue;
    v_table text;
    v_needed boolean := false;
    v_since int8 := 0;
    v_limit int8;
begin
    perform pgq._require_read_committed();
    -- Ticks, rotation, new and dropped queues; registrations, too.  Reading goes on.
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
