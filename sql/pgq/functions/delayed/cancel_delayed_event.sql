create or replace function pgq.cancel_delayed_event(i_queue_name text, i_event_id int8)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Cancels a delayed event.  Returns 1, or 0 when the event is not waiting (any more).
 *
 * If the function returns 1 and the transaction commits, no consumer gets the event.
 */
declare
    v_queue_id int4;
begin
    select queue_id into v_queue_id from pgq.queue where queue_name = i_queue_name;
    if not found then
        perform pgq._raise_no_queue('No such queue', i_queue_name);
    end if;
    delete from pgq.delayed_event where ev_queue = v_queue_id and ev_id = i_event_id;
    return found::int4;
end;
$$;
