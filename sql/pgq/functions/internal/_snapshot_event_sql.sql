create or replace function pgq._snapshot_event_sql(
    i_queue_id int4,
    i_last txid_snapshot,
    i_current txid_snapshot,
    i_owner text
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the query that reads the events of a queue between two snapshots.
 *
 * They are those of the transactions that the current snapshot sees and the last one does not.
 * Two index scans find them in each table:
 *
 *     range: ids from xmax of the last snapshot to xmax of the current one.  Both snapshots
 *            together show what happened in this range.
 *     list:  ids that were running at the last snapshot and are finished at the current one.
 *            They are older than the range, and all of their events lie between the two.
 *
 * A long transaction costs one entry in the list, not a scan over all that came after it.  Ids
 * right below the range, without a gap, are included by lowering it.  The range never covers a gap,
 * however small: a single finished transaction in it may have written millions of events, which each
 * batch near it would read again.
 *
 * i_owner -- condition on ev_owner, as SQL.
 */
declare
    v_start int8 := txid_snapshot_xmax(i_last);
    v_list text;
    v_txid int8;
    v_columns constant text := 'ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,'
        ' ev_extra1, ev_extra2, ev_extra3, ev_extra4';
    v_range text;
    v_table text;
    v_parts text[] := '{}';
begin
    for v_txid in
        select running.txid
        from txid_snapshot_xip(i_last) as running (txid)
        where txid_visible_in_snapshot(running.txid, i_current)
        order by running.txid desc
    loop
        if v_txid = v_start - 1 then
            v_start := v_txid;
        else
            v_list := concat_ws(',', v_list, v_txid);
        end if;
    end loop;

    v_range := format(
        'ev_txid >= %s and ev_txid <= %s'
        ' and pg_catalog.txid_visible_in_snapshot(ev_txid, %L::pg_catalog.txid_snapshot)'
        ' and not pg_catalog.txid_visible_in_snapshot(ev_txid, %L::pg_catalog.txid_snapshot)',
        v_start,
        txid_snapshot_xmax(i_current),
        i_current,
        i_last
    );
    for v_table in
        select pgq.quote_fqname(t)
        from pgq._snapshot_event_tables(i_queue_id, i_last, i_current) as t
    loop
        v_parts := v_parts || format(
            'select %s from only %s where %s and %s', v_columns, v_table, v_range, i_owner
        );
        if v_list is not null then
            v_parts := v_parts || format(
                'select %s from only %s where ev_txid in (%s) and %s',
                v_columns, v_table, v_list, i_owner
            );
        end if;
    end loop;
    return array_to_string(v_parts, E'\nunion all\n') || E'\norder by 1';
end;
$$;
