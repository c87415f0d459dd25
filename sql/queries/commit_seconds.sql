/*
 * Commits a small transaction, and returns by the clock of the server when it began and ended: the
 * way to the server, and the load of this host, are not included.
 *
 * The message is in the WAL, so the commit waits for the disk; it would not for a mere
 * transaction id.
 *
 * next_id -- id of the next transaction.
 */
begin;
select
    extract(epoch from pg_catalog.clock_timestamp())::float8 as started,
    pg_catalog.pg_logical_emit_message(true, 'londiste', '');
commit;
select
    extract(epoch from pg_catalog.clock_timestamp())::float8 as ended,
    pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::int8 as next_id;
