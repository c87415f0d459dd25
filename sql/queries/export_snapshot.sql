/*
 * Lets other sessions read what this transaction sees: the name for them, and the snapshot.
 */
select
    pg_catalog.pg_export_snapshot() as name,
    pg_catalog.txid_current_snapshot()::text as snapshot
