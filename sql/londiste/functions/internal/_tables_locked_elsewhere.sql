create or replace function londiste._tables_locked_elsewhere()
returns oid[]
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the tables that another session has locked against all others, as VACUUM FULL does.
 *
 * What reads the definition of such a table waits for that session.
 */
select array(
    select l.relation
    from pg_locks as l
    where l.pid <> pg_backend_pid()
        and l.locktype = 'relation'
        and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        and l.mode = 'AccessExclusiveLock'
        and l.granted);
$$;
