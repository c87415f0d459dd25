create or replace function londiste._note_versions(i_accept boolean)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the current version of each replicated table.  Returns the number of changed tables.
 *
 * i_accept -- true: the change is part of a script that runs on all nodes.  false: a rewrite is kept
 *     until the table is copied, or accept_rewrite() is called.
 */
declare
    v_table record;
    v_count int4 := 0;
begin
    for v_table in
        select * from londiste._versions(null::text) f where f.changed
    loop
        update londiste.table_version v
        set (filenode, columns, last_column) = (
                select m.filenode, m.columns, m.last_column
                from londiste._table_mark(v.relid) m),
            rewritten_at = case when v_table.rewritten and not i_accept
                then coalesce(v.rewritten_at, now()) else v.rewritten_at end
        where v.queue_name = v_table.queue_name and v.table_name = v_table.table_name;
        v_count := v_count + 1;
    end loop;
    -- From before versions were stored, or created again under the same name.
    perform londiste._note_version(t.queue_name, t.table_name)
    from londiste.table_info t
    where t.local
        and t.merge_state = 'ok'
        and not exists (
            select from londiste.table_version v
            where v.queue_name = t.queue_name
                and v.table_name = t.table_name
                and v.relid = londiste.find_table_oid(coalesce(t.dest_table, t.table_name)));
    return v_count;
end;
$$;
