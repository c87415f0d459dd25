create or replace function pgq._raise_insert_disabled(i_queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises LD102: the queue takes its events from another node, or an administrator has closed it.
 *
 * Of a node the hint is no command: events that somebody writes there reach no other node.
 */
declare
    v_node boolean := pgq._component_has('pgq_node.node_info');
begin
    if v_node then
        begin
            execute 'select exists (select from pgq_node.node_info n where n.queue_name = $1)'
                into v_node using i_queue_name;
        exception
            when insufficient_privilege then null;
        end;
    end if;
    raise exception using
        errcode = 'LD102',
        message = 'Insert into queue disallowed',
        detail = format('queue %s does not accept events in this database', i_queue_name),
        hint = case when v_node then 'write on the root node of the cascade; a trigger that writes'
                    ' here at DDL or for replicated rows must fire on the root only'
            else format('enable it: select pgq.set_queue_config(%L, %L, %L)',
                        i_queue_name, 'disable_insert', 'false') end;
end;
$$;
