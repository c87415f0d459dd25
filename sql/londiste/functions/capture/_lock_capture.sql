create or replace function londiste._lock_capture(i_relid oid)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Waits until nobody else makes or drops the functions that capture a table, and keeps others from it until
 * the end of the transaction.
 *
 * Two sessions that replace a function at once meet an error ("tuple concurrently updated").
 */
select pg_advisory_xact_lock('londiste.table_info'::regclass::oid::int4, i_relid::int4);
$$;
