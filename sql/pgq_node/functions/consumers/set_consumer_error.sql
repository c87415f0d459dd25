create or replace function pgq_node.set_consumer_error(
    i_queue_name text,
    i_consumer_name text,
    i_error_msg text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the last error of a consumer, for status; NULL clears it.
 *
 * ret_code -- 100 stored; 101 unknown consumer, ignored.
 */
begin
    update pgq_node.local_state
    set cur_error = i_error_msg
    where queue_name = i_queue_name and consumer_name = i_consumer_name;
    if found then
        select 100, 'Consumer error = ' || coalesce(i_error_msg, 'NULL') into ret_code, ret_note;
    else
        select 101, 'Consumer not found, error ignored: ' || coalesce(i_consumer_name, 'NULL')
            into ret_code, ret_note;
    end if;
end;
$$;
