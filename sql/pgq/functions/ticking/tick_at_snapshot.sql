create or replace function pgq.tick_at_snapshot(i_queue_name text, i_snapshot text)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Creates a tick at exactly the given snapshot and returns its id.
 *
 * i_snapshot -- the result of txid_current_snapshot() in another session, taken after this
 *     transaction called lock_ticks().  No other tick may lie in between.
 *
 * A reader in the snapshot of that session sees exactly what a consumer has applied after it
 * finished the tick.
 */
declare
    v_queue pgq.queue;
    v_last pgq.tick;
    v_snapshot txid_snapshot;
begin
    perform pgq.lock_ticks(i_queue_name);
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    begin
        v_snapshot := i_snapshot::txid_snapshot;
    exception
        when data_exception then
            v_snapshot := null;
    end;
    if v_snapshot is null then
        raise exception using
            errcode = 'LD005',
            message = format('not a snapshot: %s', coalesce(i_snapshot, 'NULL')),
            hint = 'pass the text of txid_current_snapshot()';
    end if;

    select *
    into v_last
    from pgq.tick
    where tick_queue = v_queue.queue_id
    order by tick_id desc
    limit 1;
    if found and not pgq._snapshot_covers(v_snapshot, v_last.tick_snapshot) then
        raise exception using
            errcode = 'LD103',
            message = 'the snapshot is older than the newest tick',
            detail = format(
                'snapshot %s, tick %s has %s', v_snapshot, v_last.tick_id, v_last.tick_snapshot
            ),
            hint = 'call pgq.lock_ticks() first, then take the snapshot';
    end if;
    if not pgq._snapshot_covers(txid_current_snapshot(), v_snapshot) then
        raise exception using
            errcode = 'LD005',
            message = 'the snapshot sees transactions that are not finished',
            detail = format('snapshot %s, now it is %s', v_snapshot, txid_current_snapshot()),
            hint = 'take the snapshot on this server, just before';
    end if;
    return pgq._insert_tick(v_queue, v_snapshot);
end;
$$;
