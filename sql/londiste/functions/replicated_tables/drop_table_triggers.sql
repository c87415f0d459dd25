create or replace function londiste.drop_table_triggers(
    i_queue_name text,
    i_table_name text,
    i_partitions boolean)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Drops every trigger of a table that writes to the queue, or denies writes for it.
 *
 * i_table_name -- name of the table in the queue.  If the table has another name in this database,
 *     or was renamed, the function uses that name.  A table that is replicated itself under its new
 *     name keeps its triggers.
 * i_partitions -- true: also the triggers that create_partition() has copied to inheriting tables.
 *     Tables that are replicated themselves keep theirs.
 *
 * A table that does not exist is no error.
 */
declare
    v_table text := londiste.make_fqname(i_table_name);
    v_dest text;
    v_relid oid;
    v_name text;
begin
    select coalesce(t.dest_table, t.table_name) into v_dest
    from londiste.table_info t
    where t.queue_name = i_queue_name and t.table_name = v_table;
    v_dest := coalesce(v_dest, v_table);
    v_relid := londiste.find_table_oid(v_dest);
    if v_relid is null then
        select londiste.find_table_oid(r.new_name) into v_relid
        from londiste.renamed_tables(i_queue_name) r
        where r.table_name = v_table
            and not exists (
                select from londiste.table_info o
                where o.queue_name = i_queue_name
                    and o.local
                    and coalesce(o.dest_table, o.table_name) = r.new_name);
    end if;

    perform londiste.drop_capture(i_queue_name, v_dest);
    for v_relid in
        with recursive tree (relid) as (
            select v_relid
            where v_relid is not null
            union
            select i.inhrelid
            from tree t
                join pg_inherits i on i.inhparent = t.relid
                join pg_class c on c.oid = i.inhrelid
            where i_partitions
                -- A partition loses its triggers with those of the partitioned table.
                and not c.relispartition
                and not exists (
                    select from londiste.table_info o
                    where o.queue_name = i_queue_name
                        and o.local
                        and coalesce(o.dest_table, o.table_name) = londiste._plain_name(c.oid)))
        select t.relid
        from tree t
        where exists (
            select from pg_trigger g
            where g.tgrelid = t.relid
                and g.tgconstrindid = 0
                and londiste._trigger_first_arg(g.tgargs) = i_queue_name)
        order by t.relid
    loop
        perform londiste.drop_capture(i_queue_name, londiste._plain_name(v_relid));
        for v_name in
            select t.tgname
            from pg_trigger t
                join pg_proc p on p.oid = t.tgfoid
                join pg_namespace n on n.oid = p.pronamespace
            where t.tgrelid = v_relid
                and t.tgconstrindid = 0
                and n.nspname = 'pgq'
                and p.proname in ('sqltriga', 'logutriga', 'jsontriga')
                and londiste._trigger_first_arg(t.tgargs) = i_queue_name
            order by t.tgname
        loop
            execute format('drop trigger %I on %s', v_name, londiste._qualified_name(v_relid));
        end loop;
    end loop;
end;
$$;

create or replace function londiste.drop_table_triggers(i_queue_name text, i_table_name text)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
/* The same; triggers of inheriting tables stay. */
select londiste.drop_table_triggers(i_queue_name, i_table_name, false);
$$;
