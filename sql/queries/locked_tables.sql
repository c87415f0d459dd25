-- Tables that another session has locked against all others, or a partition of them, as
-- londiste._tables_locked_elsewhere() returns them: also in a database without Londiste.
-- locked_schema, locked_name -- the partition, or the table itself.
with locked as (
    select distinct c.oid, n.nspname, c.relname
    from pg_catalog.pg_locks l
    join pg_catalog.pg_class c on c.oid = l.relation and c.relkind in ('r', 'p')
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname !~ '^pg_'
    where l.pid is distinct from pg_catalog.pg_backend_pid()
        and l.locktype = 'relation'
        and l.database = (
            select d.oid from pg_catalog.pg_database d
            where d.datname = pg_catalog.current_database())
        and l.mode = 'AccessExclusiveLock'
        and l.granted
)
select distinct on (n.nspname, c.relname)
    c.oid::int8 as oid,
    n.nspname::text as schema,
    c.relname::text as name,
    l.nspname::text as locked_schema,
    l.relname::text as locked_name
from locked l
cross join lateral (
    select l.oid
    union
    select a.relid::oid from pg_catalog.pg_partition_ancestors(l.oid) a) t
join pg_catalog.pg_class c on c.oid = t.oid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
order by n.nspname, c.relname, c.oid <> l.oid, l.nspname, l.relname
