create or replace function londiste._seq_is_of_table(
    i_queue_name text,
    i_seq_oid oid,
    i_except text)
returns boolean
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether a table that this node replicates, or a partition of it, has the sequence as that
 * of a column.
 *
 * i_except -- this table of the queue does not count.
 */
begin
    return exists (
        select from (
            select d.refobjid as relid
            from pg_depend as d
            where d.classid = 'pg_class'::regclass
                and d.objid = i_seq_oid
                and d.refclassid = 'pg_class'::regclass
                and d.refobjsubid > 0
                and d.deptype in ('a', 'i')
            union all
            select e.adrelid
            from pg_depend as d
                join pg_attrdef as e on e.oid = d.objid
            where d.classid = 'pg_attrdef'::regclass
                and d.refclassid = 'pg_class'::regclass
                and d.refobjid = i_seq_oid
        ) as f
            cross join lateral (
                select f.relid
                union
                select a.relid from pg_partition_ancestors(f.relid) as a) as r
            join pg_class as c on c.oid = r.relid
            join pg_namespace as n on n.oid = c.relnamespace
            join londiste.table_info as t
                on t.queue_name = i_queue_name
                and t.local
                and coalesce(t.dest_table, t.table_name) = n.nspname || '.' || c.relname
        where t.table_name <> i_except);
end;
$$;
