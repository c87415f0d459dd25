create or replace function pgq_node.begin_operation(
    i_queue_name text,
    i_token uuid,
    i_operation text,
    i_node_name text,
    i_new_node text,
    i_operator text,
    i_from_node text,
    i_resume boolean,
    out ret_code int4,
    out ret_note text,
    out token uuid,
    out last_tick int8)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Starts a change of the cascade on this node, or resumes it after an interruption.
 *
 * i_token -- token of the operation; null: the stored one, or a new one.
 * i_from_node -- provider of the node that moves.
 * i_resume -- whether the worker of that node must run at the end.
 * token -- the token for the other nodes.
 * last_tick -- last tick of a root that the operation has closed already.
 *
 * ret_code -- 200 started; 201 the same operation is in progress; 404 this database is no node of
 *     the queue; 405 another operation is in progress.
 */
declare
    v_row pgq_node.operation;
begin
    -- The second of two operations that start at the same time waits for the first.
    perform 1 from pgq_node.node_info n where n.queue_name = i_queue_name for no key update;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    select * into v_row from pgq_node.operation o where o.queue_name = i_queue_name;
    if found then
        token := v_row.token;
        last_tick := v_row.last_tick;
        if (v_row.operation, v_row.node_name, v_row.new_node) = (i_operation, i_node_name, i_new_node)
            and v_row.token = coalesce(i_token, v_row.token)
        then
            select 201, 'Under way since ' || v_row.started_at::text into ret_code, ret_note;
            return;
        end if;
        select 405, format('Another change is under way: %s from %s to %s, begun by %s at %s',
            v_row.operation, v_row.node_name, v_row.new_node, v_row.operator, v_row.started_at)
            into ret_code, ret_note;
        return;
    end if;
    token := coalesce(i_token, gen_random_uuid());
    insert into pgq_node.operation
        (queue_name, token, operation, node_name, new_node, operator, from_node, resume)
    values
        (i_queue_name, begin_operation.token, i_operation, i_node_name, i_new_node, i_operator,
         i_from_node, coalesce(i_resume, false));
    select 200, 'Begun' into ret_code, ret_note;
end;
$$;
