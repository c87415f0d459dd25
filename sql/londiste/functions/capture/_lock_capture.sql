create or replace function londiste._lock_capture(i_relid oid)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Locks the functions that capture a table against other sessions until the transaction ends.
 *
 * Two sessions that replace a function at once get an error ("tuple concurrently updated").
 */
select pg_advisory_xact_lock('londiste.table_info'::regclass::oid::int4, i_relid::int4);
$$;
