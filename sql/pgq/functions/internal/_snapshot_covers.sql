create or replace function pgq._snapshot_covers(i_newer txid_snapshot, i_older txid_snapshot)
returns boolean
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether the newer snapshot sees every transaction that the older one sees.
 */
    select txid_snapshot_xmax(i_newer) >= txid_snapshot_xmax(i_older)
        and not exists (
            select 1
            from txid_snapshot_xip(i_newer) as running (txid)
            where txid_visible_in_snapshot(running.txid, i_older)
        );
$$;
