create or replace function pgq.delayed_event_list(
    i_queue_name text,
    i_count int4 default null,
    i_offset int4 default null
)
returns setof pgq.delayed_event
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the delayed events of a queue, the next one first.
 *
 * i_count -- maximum number of events; null (default): all.
 * i_offset -- number of events to skip first; null (default): none.
 *
 * An event whose time is past waits for the ticker, or until the queue accepts events again.
 */
declare
    v_queue_id int4;
begin
    select queue_id into v_queue_id from pgq.queue where queue_name = i_queue_name;
    if not found then
        perform pgq._raise_no_queue('No such queue', i_queue_name);
    end if;
    if i_count < 0 or i_offset < 0 then
        raise exception using
            errcode = 'LD005',
            message = format('invalid limit and offset: %s events after the first %s',
                             coalesce(i_count::text, 'all'), coalesce(i_offset, 0)),
            hint = 'use numbers from 0 up';
    end if;
    return query
    select *
    from pgq.delayed_event
    where ev_queue = v_queue_id
    order by ev_send_at, ev_id
    limit i_count
    offset i_offset;
end;
$$;
