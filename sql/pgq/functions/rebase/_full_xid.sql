create or replace function pgq._full_xid(i_xid xid)
returns int8
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the transaction id of 64 bits for a row's xmin: the newest that ends in it.
 */
    select txid_snapshot_xmax(txid_current_snapshot())
        - ((txid_snapshot_xmax(txid_current_snapshot()) - i_xid::text::int8) & 4294967295);
$$;
