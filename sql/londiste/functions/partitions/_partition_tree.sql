create or replace function londiste._partition_tree(
    i_relid oid,
    out relid oid,
    out isleaf boolean)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns a partitioned table and its partitions of all levels, or a partition alone; no row for another table.
 *
 * As pg_partition_tree(), which locks each partition: it waits for a session that has locked one.
 * Only for what looks at a table and does not depend on the lock.
 */
with recursive tree (relid, relkind) as (
    select c.oid, c.relkind
    from pg_class as c
    where c.oid = i_relid and (c.relkind = 'p' or c.relispartition)
    union all
    select c.oid, c.relkind
    from tree as t
        join pg_inherits as h on h.inhparent = t.relid and t.relkind = 'p'
        join pg_class as c on c.oid = h.inhrelid
    -- Not those that are being detached; before PostgreSQL 14 there is no such column.
    where to_jsonb(h) ->> 'inhdetachpending' is distinct from 'true'
)
select t.relid, t.relkind <> 'p'
from tree as t;
$$;
