-- Of some tables, those that this transaction may have given another file: their names, whether
-- they have no page, and whether this session can read all of their rows.  %(oids)s
-- No other session has changed the file of a table that is locked here, and none has to be waited for.
select c.oid::int8, s.nspname as schema, c.relname as name,
    pg_relation_size(c.oid) = 0 as empty,
    has_table_privilege(c.oid, 'select') and not row_security_active(c.oid) as readable
from pg_catalog.pg_class c
    join pg_catalog.pg_namespace s on s.oid = c.relnamespace
where c.oid = any (%(oids)s::oid[])
    and exists (
        select from pg_catalog.pg_locks l
        where l.pid = pg_backend_pid()
            and l.locktype = 'relation'
            and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
            and l.relation = c.oid
            and l.mode = 'AccessExclusiveLock'
            and l.granted)
