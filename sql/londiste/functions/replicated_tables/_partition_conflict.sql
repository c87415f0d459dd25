create or replace function londiste._partition_conflict(
    i_queue_name text,
    i_table_name text,
    i_dest_table text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns why a table cannot be added to a queue on this node; NULL when it can.
 *
 * A partition and its partitioned table cannot both be in one queue.  Each change would be captured
 * twice, and the copy of one table would truncate the other.  A foreign table cannot be captured.
 */
declare
    v_relid oid := londiste.find_table_oid(i_dest_table);
begin
    -- Most tables are neither, and the queue may have thousands of others.
    if not exists (select from pg_class as c where c.oid = v_relid and (c.relkind = 'p' or c.relispartition)) then
        return null;
    end if;
    return (
        with this as (
            select v_relid as oid
        ), other as (
            select coalesce(t.dest_table, t.table_name) as name,
                londiste.find_table_oid(coalesce(t.dest_table, t.table_name)) as oid
            from londiste.table_info as t
            where t.queue_name = i_queue_name
                and t.local
                and t.table_name <> i_table_name
                and coalesce(t.dest_table, t.table_name) <> i_dest_table
        )
        select coalesce(
            (
                select format('Table %s is in queue %s already, and %s is a partition of it', o.name, i_queue_name, i_dest_table)
                from this as t
                    cross join lateral pg_partition_ancestors(t.oid) as a (relid)
                    join other as o on o.oid = a.relid
                order by o.name
                limit 1),
            (
                select format('Partition %s of table %s is in queue %s already', o.name, i_dest_table, i_queue_name)
                from this as t
                    cross join lateral pg_partition_tree(t.oid) as p
                    join other as o on o.oid = p.relid
                order by o.name
                limit 1),
            (
                select format('Partition %s of table %s is a foreign table', p.relid::regclass, i_dest_table)
                from this as t
                    cross join lateral pg_partition_tree(t.oid) as p
                    join pg_class as c on c.oid = p.relid
                where c.relkind = 'f'
                order by 1
                limit 1)));
end;
$$;
