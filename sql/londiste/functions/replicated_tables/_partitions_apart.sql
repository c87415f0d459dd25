create or replace function londiste._partitions_apart(i_queue_name text, i_relid oid)
returns bool
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether the queue contains single partitions of a table.
 *
 * i_relid -- the partitioned table, or one of its partitions.
 */
select exists (
    select
    from londiste._partition_tree(pg_partition_root(i_relid)) as p
        join pg_class as c on c.oid = p.relid
        join pg_namespace as n on n.oid = c.relnamespace
        join londiste.table_info as t
            on coalesce(t.dest_table, t.table_name) = n.nspname || '.' || c.relname
    where t.queue_name = i_queue_name
        and t.local
        and p.relid <> pg_partition_root(i_relid));
$$;
