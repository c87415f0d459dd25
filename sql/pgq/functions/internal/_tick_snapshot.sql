create or replace function pgq._tick_snapshot(i_queue pgq.queue, i_tick_id int8)
returns txid_snapshot
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the snapshot of a tick; LD107 when the tick is removed, LD105 when it does not exist yet.
 */
declare
    v_snapshot txid_snapshot;
    v_first int8;
    v_last int8;
begin
    select tick_snapshot
    into v_snapshot
    from pgq.tick
    where tick_queue = (i_queue).queue_id and tick_id = i_tick_id;
    if found then
        return v_snapshot;
    end if;
    select min(tick_id), max(tick_id)
    into v_first, v_last
    from pgq.tick
    where tick_queue = (i_queue).queue_id;
    if v_last is null or i_tick_id > v_last then
        raise exception using
            errcode = 'LD105',
            message = format('queue %s has no tick %s yet', (i_queue).queue_name, i_tick_id),
            detail = coalesce('the newest is tick ' || v_last, 'it has no tick at all'),
            hint = format('wait for it, or create one: select pgq.force_tick(%L)',
                          (i_queue).queue_name);
    end if;
    raise exception using
        errcode = 'LD107',
        message = format('queue %s has no tick %s', (i_queue).queue_name, i_tick_id),
        detail = format('it has ticks from %s to %s; rotation removes ticks that no consumer needs',
                        v_first, v_last),
        hint = format('start at tick %s or later, and bring the reader''s data to that point; a '
                      'registered consumer keeps the ticks of its reader', v_first);
end;
$$;
