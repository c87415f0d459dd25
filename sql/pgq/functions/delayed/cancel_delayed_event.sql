create or replace function pgq.cancel_delayed_event(i_queue_name text, i_event_id int8)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Takes back an event that waits for its time; returns 1, or 0 when it does not wait (any more).
 *
 * With 1, and a commit, no consumer gets it.
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
