create or replace function londiste._note_versions(i_accept boolean)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the current version of each replicated table.  Returns the number of changed tables.
 *
 * A rewrite, or another table of the same name, or a detached partition, is kept until the table is copied, or
 * accept_rewrite() is called.
 *
 * i_accept -- true: those of this transaction are not kept, because they are part of a script that runs on all nodes.
 */
declare
    v_table record;
    v_count int4 := 0;
    v_home oid := 'londiste.table_info'::regclass;
    -- Each of these changes keeps such a lock on the table, or on the partition, until its transaction ends.
    v_own oid[] := case when i_accept then londiste._locked_tables() else '{}' end;
begin
    for v_table in
        select * from londiste._versions(null::text) f where f.changed
    loop
        update londiste.table_version v
        set (filenode, columns, last_column, names) = (
                select m.filenode, m.columns, m.last_column, m.names
                from londiste._table_mark(v.relid) m),
            partitions = londiste._partitions(v.relid) || array(
                select p.relid
                from unnest(v.partitions) as p (relid)
                    join pg_class c on c.oid = p.relid
                where p.relid <> all (v_own)
                    and not exists (
                        select from pg_partition_ancestors(p.relid) as a (relid)
                        where a.relid = any (v_own))
                except
                select n.relid::oid from pg_partition_tree(v.relid) as n),
            rewritten_at = case when v_table.rewritten and v.relid <> all (v_own)
                then coalesce(v.rewritten_at, now()) else v.rewritten_at end
        where v.queue_name = v_table.queue_name and v.table_name = v_table.table_name;
        v_count := v_count + 1;
    end loop;
    -- The database was restored from a dump: its tables have other oids, and are the same.
    update londiste.table_version v
    set relid = r.oid,
        filenode = m.filenode,
        columns = m.columns,
        last_column = m.last_column,
        names = m.names,
        partitions = londiste._partitions(r.oid),
        home = v_home
    from londiste.table_info t
        cross join lateral londiste.find_table_oid(coalesce(t.dest_table, t.table_name)) r (oid)
        cross join lateral londiste._table_mark(r.oid) m
    where t.queue_name = v.queue_name
        and t.table_name = v.table_name
        and v.home <> v_home
        and m.columns is not null;
    -- The table of a root has the rows of the queue; that of a subscriber lacks those of before.
    update londiste.table_version v
    set replaced_at = now()
    from londiste._replaced(null::text) f
    where f.queue_name = v.queue_name
        and f.table_name = v.table_name
        and v.replaced_at is null
        and not f.is_root
        and v.relid <> all (v_own);
    perform londiste._note_version(f.queue_name, f.table_name)
    from londiste._replaced(null::text) f
    where f.replaced_at is null;
    -- From before versions were stored.
    perform londiste._note_version(t.queue_name, t.table_name)
    from londiste.table_info t
    where t.local
        and t.merge_state = 'ok'
        and not exists (
            select from londiste.table_version v
            where v.queue_name = t.queue_name and v.table_name = t.table_name);
    return v_count;
end;
$$;
