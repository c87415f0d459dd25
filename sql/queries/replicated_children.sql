-- Tables that inherit from a table of this database, and are replicated themselves.
-- %(dest)s its name here, quoted.
with recursive tree as (
    select i.inhrelid as oid
    from pg_catalog.pg_inherits i
    where i.inhparent = pg_catalog.to_regclass(%(dest)s)
    union
    select i.inhrelid
    from tree
    join pg_catalog.pg_inherits i on i.inhparent = tree.oid
)
select n.nspname || '.' || c.relname, t.queue_name, t.table_name
from tree
join pg_catalog.pg_class c on c.oid = tree.oid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join londiste.table_info t on coalesce(t.dest_table, t.table_name) = n.nspname || '.' || c.relname
where t.local
order by 1, 2, 3
