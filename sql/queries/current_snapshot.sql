/*
 * What this transaction sees, as text.
 */
select pg_catalog.txid_current_snapshot()::text
