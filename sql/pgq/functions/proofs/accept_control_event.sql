create or replace function pgq.accept_control_event(i_queue_name text, i_event_id int8)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Accepts a control event without proof, so that subscribers follow it.  Returns 1, or 0 if it was
 * proven before.
 *
 * For administrators who have read the event.  Raises LD005 if the queue has no control event with
 * this id, or several: then it is unknown which of them was read.
 */
declare
    v_queue pgq.queue;
    v_found int8;
    v_count int4;
begin
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    if not found then
        perform pgq._raise_no_queue('Event queue not found', i_queue_name);
    end if;
    execute format(
        'with found as ('
        '   select ev_id, ev_txid, ev_type from %s where ev_id = $1 and pgq._is_control(ev_type)'
        -- event_retry() copies an event for one consumer.  Nodes do not get the copy.
        '       and ev_owner is null),'
        ' accepted as ('
        '   insert into pgq.control_event (ev_queue, ev_id, ev_txid, ev_type)'
        '   select distinct $2, f.ev_id, f.ev_txid, f.ev_type from found f'
        '   where not exists ('
        '       select from pgq.control_event c'
        '       where c.ev_queue = $2 and c.ev_id = f.ev_id and c.ev_txid = f.ev_txid'
        '           and c.ev_type = f.ev_type)'
        '   returning 1)'
        ' select (select count(*) from found), (select count(*)::int4 from accepted)',
        pgq.quote_fqname(v_queue.queue_data_pfx)
    )
    into v_found, v_count
    using i_event_id, v_queue.queue_id;
    if v_found = 0 then
        raise exception using
            errcode = 'LD005',
            message = format('queue %s has no control event %s', i_queue_name, i_event_id),
            hint = format('check its id: select * from %s where ev_id = %s',
                v_queue.queue_data_pfx, i_event_id);
    end if;
    if v_found > 1 then
        raise exception using
            errcode = 'LD005',
            message = format('queue %s has %s control events %s', i_queue_name, v_found, i_event_id),
            detail = 'they have one id, so it is unknown which of them is genuine',
            hint = format('inspect them: select * from %s where ev_id = %s; then skip them on the'
                ' subscribers: londiste events skip %s',
                v_queue.queue_data_pfx, i_event_id, i_event_id);
    end if;
    return v_count;
end;
$$;
