create or replace function londiste._watch_partitions()
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Records changes of rows in captured partitioned tables without an event.  Returns their number.
 *
 * No trigger fires on ATTACH and DETACH, and a new partition has no TRUNCATE trigger until the next
 * maintenance.  The first check of a table accepts its partitions as they are.  A partition created
 * by CREATE TABLE ... PARTITION OF and its entry in the tree are of one transaction.  An attached
 * partition is older than its entry, as are its rows.
 */
declare
    v_table record;
    v_part record;
    v_wrong text;
    v_count int4 := 0;
begin
    delete from londiste.capture_partition as k
    where not exists (
        select from londiste._captures(null::text) as c
        where c.args[1] = k.queue_name and c.table_name = k.table_name);
    for v_table in
        select distinct c.relid, c.table_name, c.args[1] as queue_name,
            not exists (
                select from londiste.capture_partition as k
                where k.queue_name = c.args[1] and k.table_name = c.table_name) as is_first
        from londiste._captures(null::text) as c
            join pg_class as r on r.oid = c.relid
        where r.relkind = 'p'
    loop
        for v_part in
            select c.oid, c.oid::regclass::text as name, c.relfilenode <> c.oid as is_rewritten,
                i.xmin as placed, i.xmin <> a.xmin as is_attached
            from pg_partition_tree(v_table.relid) as p
                join pg_class as c on c.oid = p.relid
                join pg_inherits as i on i.inhrelid = c.oid
                join pg_attribute as a on a.attrelid = c.oid and a.attname = 'tableoid'
            where p.isleaf
                and c.relkind = 'r'
                and not exists (
                    select from londiste.capture_partition as k
                    where k.queue_name = v_table.queue_name
                        and k.table_name = v_table.table_name
                        and k.relid = c.oid)
        loop
            v_wrong := case
                when v_table.is_first then null
                when v_part.is_attached and londiste._has_rows(v_part.oid, v_part.placed)
                    then 'was attached with rows, which subscribers did not get'
                when not v_part.is_attached and v_part.is_rewritten
                    then 'was emptied or rewritten before its TRUNCATE was captured, subscribers may have rows too many'
            end;
            insert into londiste.capture_partition (queue_name, table_name, relid, partition, wrong)
            values (v_table.queue_name, v_table.table_name, v_part.oid, v_part.name, v_wrong);
            v_count := v_count + (v_wrong is not null)::int4;
        end loop;
        -- Those that have left the table.
        for v_part in
            select k.relid as oid, c.oid is not null as is_there
            from londiste.capture_partition as k
                left join pg_class as c on c.oid = k.relid
            where k.queue_name = v_table.queue_name
                and k.table_name = v_table.table_name
                and (k.wrong is null or not starts_with(k.wrong, 'was detached'))
                and not exists (
                    select from pg_partition_tree(v_table.relid) as p
                    where p.relid = k.relid)
        loop
            if v_part.is_there and londiste._has_rows(v_part.oid, null::xid) then
                update londiste.capture_partition
                set wrong = 'was detached with rows, which stay on subscribers'
                where queue_name = v_table.queue_name
                    and table_name = v_table.table_name
                    and relid = v_part.oid;
                v_count := v_count + 1;
            else
                -- Dropped, or empty: an earlier error stays.
                delete from londiste.capture_partition
                where queue_name = v_table.queue_name
                    and table_name = v_table.table_name
                    and relid = v_part.oid
                    and wrong is null;
            end if;
        end loop;
    end loop;
    return v_count;
end;
$$;
