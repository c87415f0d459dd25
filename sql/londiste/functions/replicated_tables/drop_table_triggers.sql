create or replace function londiste.drop_table_triggers(i_queue_name text, i_table_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Drops every trigger of a table that writes to the queue, or denies writes for it.
 *
 * i_table_name -- name of the table in the queue.  If the table has another name in this database,
 *     the function uses that name.
 *
 * A table that does not exist is no error.
 */
declare
    v_table text := londiste.make_fqname(i_table_name);
    v_dest text;
    v_name text;
begin
    select coalesce(t.dest_table, t.table_name) into v_dest
    from londiste.table_info t
    where t.queue_name = i_queue_name and t.table_name = v_table;
    v_dest := coalesce(v_dest, v_table);

    perform londiste.drop_capture(i_queue_name, v_dest);
    for v_name in
        select t.tgname
        from pg_trigger t
            join pg_proc p on p.oid = t.tgfoid
            join pg_namespace n on n.oid = p.pronamespace
        where t.tgrelid = londiste.find_table_oid(v_dest)
            and t.tgconstrindid = 0
            and n.nspname = 'pgq'
            and p.proname in ('sqltriga', 'logutriga', 'jsontriga')
            and londiste._trigger_first_arg(t.tgargs) = i_queue_name
        order by t.tgname
    loop
        execute format('drop trigger %I on %s', v_name, londiste.quote_fqname(v_dest));
    end loop;
end;
$$;
