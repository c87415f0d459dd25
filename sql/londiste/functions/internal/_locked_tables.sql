create or replace function londiste._locked_tables()
returns oid[]
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the tables that this transaction has locked exclusively, as each change of their structure does.
 */
select array(
    select l.relation
    from pg_locks as l
    where l.pid = pg_backend_pid()
        and l.locktype = 'relation'
        and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        and l.mode = 'AccessExclusiveLock'
        and l.granted);
$$;
