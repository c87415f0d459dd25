create or replace function londiste._coordinate_copy(
    i_queue_name text,
    i_table_name text,
    out copy_role text,
    out copy_pos int4)
returns record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns what the copy of one part may do when several queues fill the same table.
 *
 * Parts are the local registrations, not yet ok, of the same destination table in queues
 * that merge into the same combined queue (or into none).  One of them owns the structure:
 * the one that has the dropped DDL, otherwise the lowest queue name.
 *
 * copy_role -- NULL: continue alone; lead: drop the structure and copy; wait-copy: do not copy yet;
 *     wait-replay: copy rows only, do not replay yet.
 * copy_pos -- number of parts with lower names that are in in-copy as well; 0 for the owner.
 */
declare
    v_dest text;
    v_combined text;
    v_state text;
    v_owner text;
    v_owner_has_ddl boolean;
    v_parts int4;
    v_some_past boolean;
    v_all_past boolean;
begin
    copy_pos := 0;
    select coalesce(t.dest_table, t.table_name), n.combined_queue, t.merge_state
        into v_dest, v_combined, v_state
    from londiste.table_info t join pgq_node.node_info n using (queue_name)
    where t.queue_name = i_queue_name and t.table_name = i_table_name and t.local;
    if not found or v_state is null or v_state not in ('in-copy', 'catching-up') then
        return;
    end if;

    select count(*),
           bool_or(coalesce(t.merge_state, 'in-copy') <> 'in-copy'),
           bool_and(coalesce(t.merge_state, 'in-copy') <> 'in-copy'),
           count(*) filter (where t.merge_state = 'in-copy' and t.queue_name < i_queue_name),
           coalesce(min(t.queue_name) filter (where t.dropped_ddl is not null), min(t.queue_name)),
           bool_or(t.dropped_ddl is not null)
        into v_parts, v_some_past, v_all_past, copy_pos, v_owner, v_owner_has_ddl
    from londiste.table_info t join pgq_node.node_info n using (queue_name)
    where t.local
        and coalesce(t.merge_state, '') <> 'ok'
        and coalesce(t.dest_table, t.table_name) = v_dest
        and n.combined_queue is not distinct from v_combined;

    if v_parts = 1 then
        copy_pos := 0;
        return;
    end if;
    if v_owner = i_queue_name then
        copy_pos := 0;
    end if;

    if v_state = 'in-copy' then
        if v_owner = i_queue_name then
            copy_role := case when not v_owner_has_ddl and v_some_past
                              then 'wait-replay' else 'lead' end;
        else
            copy_role := case when v_owner_has_ddl or v_some_past
                              then 'wait-replay' else 'wait-copy' end;
        end if;
    elsif v_owner_has_ddl and (v_owner <> i_queue_name or not v_all_past) then
        copy_role := 'wait-replay';
    end if;
end;
$$;
