create or replace function pgq.batch_event_sql(x_batch_id int8)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
/*
 * Returns the query that reads the events of a batch, in the order of their ids.
 *
 * They are those of the transactions that the snapshot of the batch's tick sees and the snapshot
 * of the tick before does not.  Retries of other consumers are excluded.
 */
declare
    v_batch record;
begin
    select
        s.sub_id,
        s.sub_queue,
        last.tick_snapshot as last_snapshot,
        cur.tick_snapshot as cur_snapshot,
        (select i.row_xmin = i.xmin::text::int8 from pgq.cluster_identity i) as is_at_home
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
            message = 'batch not found',
            detail = format('there is no open batch %s', coalesce(x_batch_id::text, 'NULL')),
            hint = 'open the next batch: select pgq.next_batch(queue, consumer)';
    end if;
    if v_batch.is_at_home is not true then
        -- A batch that was open when the database was dumped: events inserted on this server may have ids
        -- between those of its ticks.
        perform pgq._require_home();
    end if;
    return pgq._snapshot_event_sql(
        v_batch.sub_queue,
        v_batch.last_snapshot,
        v_batch.cur_snapshot,
        format('(ev_owner is null or ev_owner = %s)', v_batch.sub_id)
    );
end;
$$;
