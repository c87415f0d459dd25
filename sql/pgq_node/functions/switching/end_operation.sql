create or replace function pgq_node.end_operation(
    i_queue_name text,
    i_token uuid,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Deletes the operation with this token: it is finished or undone on this node.
 *
 * ret_code -- 200 deleted; 301 it is not in progress on this node.
 */
begin
    delete from pgq_node.operation o where o.queue_name = i_queue_name and o.token = i_token;
    if found then
        select 200, 'Ended' into ret_code, ret_note;
    else
        select 301, 'Not under way' into ret_code, ret_note;
    end if;
end;
$$;
