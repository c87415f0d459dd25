create or replace function pgq._txid_bound()
returns int8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns a number above the ids of this transaction and of all that have ended.
 *
 * A role that may insert into an event table can write any ev_txid.  Under a lock that keeps all writers
 * away, an event from the bound on has an id that no transaction has had.
 */
begin
    return greatest(txid_snapshot_xmax(txid_current_snapshot()), txid_current() + 1);
end;
$$;
