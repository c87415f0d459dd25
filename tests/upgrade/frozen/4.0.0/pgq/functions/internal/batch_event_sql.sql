create or replace function pgq.batch_event_sql(x_batch_id int8)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * The query that reads the events of a batch.
 *
 * They are those of the transactions that the snapshot of the batch's tick sees and the snapshot
 * of the tick before does not.  Two index scans find them in each table:
 *
 *     range: ids from xmax of the last snapshot to xmax of the current one.  What happened in
 *            this range is told by both snapshots.
 *     list:  ids that were running at the last snapshot and are finished at the current one.
 *            They are older than the range, and all of their events belong to the batch.
 *
 * A long transaction costs one entry in the list, not a scan over all that came after it.  Ids
 * just below the range are taken by lowering it.
 */
declare
    v_batch record;
    v_start int8;
    v_list text;
    v_txid int8;
    v_columns constant text := 'ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,'
        ' ev_extra1, ev_extra2, ev_extra3, ev_extra4';
    v_owner text;
    v_range text;
    v_table text;
    v_parts text[] := '{}';
    -- An entry of the list costs a probe of the index, about as much as this many rows.
    v_near constant int4 := 100;
begin
    select
        s.sub_id,
        last.tick_snapshot as last_snapshot,
        cur.tick_snapshot as cur_snapshot
    into v_batch
    from pgq.subscription s
    join pgq.tick last on last.tick_queue = s.sub_queue and last.tick_id = s.sub_last_tick
    join pgq.tick cur on cur.tick_queue = s.sub_queue and cur.tick_id = s.sub_next_tick
    where s.sub_batch = x_batch_id;
    if not found then
        raise exception using
            errcode = 'LD106',
            message = 'batch not found',
            detail = format('there is no open batch %s', coalesce(x_batch_id::text, 'NULL')),
            hint = 'open the next batch: select pgq.next_batch(queue, consumer)';
    end if;

    v_start := txid_snapshot_xmax(v_batch.last_snapshot);
    for v_txid in
        select running.txid
        from txid_snapshot_xip(v_batch.last_snapshot) as running (txid)
        where txid_visible_in_snapshot(running.txid, v_batch.cur_snapshot)
        order by running.txid desc
    loop
        if v_start - v_txid <= v_near then
            v_start := v_txid;
        else
            v_list := concat_ws(',', v_list, v_txid);
        end if;
    end loop;

    v_owner := format('(ev_owner is null or ev_owner = %s)', v_batch.sub_id);
    v_range := format(
        'ev_txid >= %s and ev_txid <= %s'
        ' and pg_catalog.txid_visible_in_snapshot(ev_txid, %L::pg_catalog.txid_snapshot)'
        ' and not pg_catalog.txid_visible_in_snapshot(ev_txid, %L::pg_catalog.txid_snapshot)',
        v_start,
        txid_snapshot_xmax(v_batch.cur_snapshot),
        v_batch.cur_snapshot,
        v_batch.last_snapshot
    );
    for v_table in
        select pgq.quote_fqname(t) from pgq.batch_event_tables(x_batch_id) as t
    loop
        v_parts := v_parts || format(
            'select %s from only %s where %s and %s', v_columns, v_table, v_range, v_owner
        );
        if v_list is not null then
            v_parts := v_parts || format(
                'select %s from only %s where ev_txid in (%s) and %s',
                v_columns, v_table, v_list, v_owner
            );
        end if;
    end loop;
    return array_to_string(v_parts, E'\nunion all\n') || E'\norder by 1';
end;
$$;
