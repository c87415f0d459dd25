create or replace function pgq.batch_event_tables(x_batch_id int8)
returns setof text
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
/*
 * Returns the event tables that hold events of a batch, oldest first.
 */
declare
    v_batch record;
begin
    select
        s.sub_queue,
        last.tick_snapshot as last_snapshot,
        cur.tick_snapshot as cur_snapshot
    into v_batch
    -- Each tick by its whole key: without statistics a join reads all ticks of the queue.
    from pgq._open_batch(x_batch_id) s
    join lateral (
        select t.*
        from pgq.tick t
        where t.tick_queue = s.sub_queue and t.tick_id = s.sub_last_tick
        limit 1
    ) last on true
    join lateral (
        select t.*
        from pgq.tick t
        where t.tick_queue = s.sub_queue and t.tick_id = s.sub_next_tick
        limit 1
    ) cur on true;
    if not found then
        raise exception using
            errcode = 'LD106',
            message = format('Cannot find data for batch %s', coalesce(x_batch_id::text, 'NULL')),
            detail = 'the batch is finished, or never was',
            hint = 'open the next batch: select pgq.next_batch(queue, consumer)';
    end if;
    return query
    select *
    from pgq._snapshot_event_tables(
        v_batch.sub_queue, v_batch.last_snapshot, v_batch.cur_snapshot
    );
end;
$$;
