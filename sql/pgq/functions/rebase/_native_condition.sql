create or replace function pgq._native_condition(i_table text, i_since int8)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the SQL condition that event e of a table was inserted on this server, not by a restore.
 *
 * Such a row was written after the table's index was created, by the transaction it names or a
 * subtransaction of it, which has a higher id.  That transaction began after the restore.
 *
 * i_since -- transaction of the restore, 0 if unknown.
 */
    select format(
        '%1$s - ((%1$s - e.xmin::text::int8) & 4294967295) > %2$s'
        ' and e.ev_txid > %3$s'
        ' and e.ev_txid <= %1$s - ((%1$s - e.xmin::text::int8) & 4294967295)',
        txid_snapshot_xmax(txid_current_snapshot()),
        pgq._restored_until(i_table),
        i_since
    );
$$;
