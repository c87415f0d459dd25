create or replace function pgq.batch_event_tables(x_batch_id int8)
returns setof text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * The event tables that hold events of a batch, oldest first.
 *
 * Usually one, the current or the previous; two when a rotation lies within reach of the batch.
 * A table that neither of these is appears when a transaction wrote there late: one in isolation
 * level repeatable read sees the queue as it was before rotations that came since.
 */
declare
    v_batch record;
    v_current int4;
    v_previous int4;
    v_numbers int4[];
begin
    select
        q.queue_data_pfx,
        q.queue_ntables,
        q.queue_cur_table,
        q.queue_switch_step1,
        q.queue_switch_step2,
        txid_snapshot_xmin(last.tick_snapshot) as lowest_txid,
        txid_snapshot_xmax(cur.tick_snapshot) as highest_txid,
        last.tick_snapshot as last_snapshot,
        cur.tick_snapshot as cur_snapshot
    into v_batch
    from pgq.subscription s
    join pgq.queue q on q.queue_id = s.sub_queue
    join pgq.tick last on last.tick_queue = s.sub_queue and last.tick_id = s.sub_last_tick
    join pgq.tick cur on cur.tick_queue = s.sub_queue and cur.tick_id = s.sub_next_tick
    where s.sub_batch = x_batch_id;
    if not found then
        raise exception using
            errcode = 'LD106',
            message = format('Cannot find data for batch %s', coalesce(x_batch_id::text, 'NULL')),
            detail = 'the batch is finished, or never was',
            hint = 'open the next batch: select pgq.next_batch(queue, consumer)';
    end if;

    v_current := v_batch.queue_cur_table;
    v_previous := (v_current + v_batch.queue_ntables - 1) % v_batch.queue_ntables;
    if v_batch.highest_txid < v_batch.queue_switch_step1 then
        -- Finished before the switch began.
        v_numbers := array[v_previous];
    elsif v_batch.lowest_txid > v_batch.queue_switch_step2 then
        -- Begun after the switch was seen by everybody.
        v_numbers := array[v_current];
    else
        -- In one of them, or the switch is not known to be over (step2 null).
        v_numbers := array[v_previous, v_current];
    end if;

    return query
    select v_batch.queue_data_pfx || '_' || n
    from (
        select n, 0 as late, min(nr) as nr
        from unnest(v_numbers) with ordinality as u (n, nr)
        group by n
        union all
        select n, 1, n
        from generate_series(0, v_batch.queue_ntables - 1) as n
        where n <> all (v_numbers)
            and pgq._has_late_events(
                v_batch.queue_data_pfx || '_' || n,
                v_batch.last_snapshot,
                v_batch.cur_snapshot
            )
    ) as t
    order by late, nr;
end;
$$;
