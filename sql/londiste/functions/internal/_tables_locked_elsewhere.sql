create or replace function londiste._tables_locked_elsewhere()
returns oid[]
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the tables that another session has locked against all others, as VACUUM FULL does, or a partition
 * of them.
 *
 * What reads the definition of such a table waits for that session, or for a prepared transaction.
 */
select array(
    select t.relid
    from pg_locks as l
        cross join lateral (
            select l.relation
            union
            select a.relid::oid from pg_partition_ancestors(l.relation) as a) as t (relid)
    where l.pid is distinct from pg_backend_pid()
        and l.locktype = 'relation'
        and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        and l.mode = 'AccessExclusiveLock'
        and l.granted);
$$;
