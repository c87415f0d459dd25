/*
 * Ends what sessions of the copies do to one table: building indexes, keys, statistics, checking
 * foreign keys; one row per session.  Tasks that bring rows are not among them.
 *
 * %(schema)s, %(name)s -- unquoted.
 * The sessions stay; what they were about to write is rolled back, and tried again while it is wanted.
 */
select pg_catalog.pg_cancel_backend(a.pid)
from pg_catalog.pg_stat_activity a
where a.datname = pg_catalog.current_database()
    and a.usename = current_user
    and a.pid <> pg_catalog.pg_backend_pid()
    and a.application_name like 'londiste copy %%'
    and a.application_name not like 'londiste copy task %%'
    and a.state = 'active'
    and a.pid in (
        select l.pid
        from pg_catalog.pg_locks l
        join pg_catalog.pg_class c on c.oid = l.relation
        join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where l.locktype = 'relation'
            and l.database = (
                select d.oid from pg_catalog.pg_database d
                where d.datname = pg_catalog.current_database())
            and n.nspname = %(schema)s
            and c.relname = %(name)s)
