create or replace function pgq_node.set_consumer_completed(
    i_queue_name text,
    i_consumer_name text,
    i_tick_id int8,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Sets the position of a consumer to a tick, whatever it was before, and clears its last error.
 *
 * ret_code -- 100 stored; 404 unknown consumer.
 */
begin
    update pgq_node.local_state
    set last_tick_id = i_tick_id,
        cur_error = null
    where queue_name = i_queue_name and consumer_name = i_consumer_name;
    if not found then
        select 404, 'Unknown consumer: ' || coalesce(i_queue_name, 'NULL') || '/'
            || coalesce(i_consumer_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    select 100, 'Consumer completed tick = ' || i_tick_id::text into ret_code, ret_note;
end;
$$;
