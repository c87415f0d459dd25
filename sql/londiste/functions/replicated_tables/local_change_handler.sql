create or replace function londiste.local_change_handler(
    i_queue_name text,
    i_table_name text,
    i_trg_args text[],
    i_table_attrs text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Replaces the attributes of a local table and creates the triggers that they need.
 *
 * ret_code -- 200 changed; 400 this database is no node of the queue; 404 not local; the codes of
 *     create_trigger.
 */
declare
    v_table text := londiste.make_fqname(i_table_name);
    v_dest text;
    v_type text;
    v_trigger record;
begin
    select n.node_type into v_type
    from pgq_node.node_info n
    where n.queue_name = i_queue_name;
    if not found then
        select 400, 'No such set: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    select coalesce(t.dest_table, t.table_name) into v_dest
    from londiste.table_info t
    where t.queue_name = i_queue_name and t.table_name = v_table and t.local
    for update;
    if not found then
        select 404, 'Table not found: ' || coalesce(v_table, 'NULL') into ret_code, ret_note;
        return;
    end if;

    perform londiste.local_set_table_attrs(i_queue_name, v_table, i_table_attrs);
    if i_trg_args && array['virtual_table', 'no_triggers'] then
        perform londiste.drop_table_triggers(i_queue_name, v_table, true);
    else
        select * into v_trigger
        from londiste.create_trigger(i_queue_name, v_table, i_trg_args, v_dest, v_type);
        if v_trigger.ret_code not in (200, 201) then
            select v_trigger.ret_code, 'Trigger creation failed for table ' || v_dest
                || ': ' || v_trigger.ret_note into ret_code, ret_note;
            return;
        end if;
    end if;
    select 200, 'Handler changed for table: ' || v_table into ret_code, ret_note;
end;
$$;
