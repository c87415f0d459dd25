create or replace function pgq._insert_event_once(
    queue_name text,
    event_key text,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text,
    out ev_id int8,
    out is_new boolean
)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Runs pgq.insert_event_once() for administrators and for _produce_once(), which checks the caller.
 */
declare
    v_queue pgq.queue;
begin
    if coalesce(event_key, '') = '' or octet_length(event_key) > 1000 then
        raise exception using
            errcode = 'LD005',
            message = case when coalesce(event_key, '') = '' then 'an event without a key'
                else format('a key of %s bytes', octet_length(event_key)) end,
            hint = 'use a key of 1 to 1000 bytes, for example a hash of a longer one';
    end if;
    v_queue := pgq._open_for_insert(queue_name, 0::int8);
    loop
        select k.key_event_id
        into ev_id
        from pgq.event_key k
        where k.key_queue = v_queue.queue_id and k.key_value = event_key;
        if found then
            is_new := false;
            return;
        end if;
        ev_id := nextval(v_queue.queue_event_seq);
        -- Waits for another transaction that has inserted this key and is not finished.
        insert into pgq.event_key (key_queue, key_value, key_event_id)
        values (v_queue.queue_id, event_key, ev_id)
        on conflict on constraint event_key_pkey do nothing;
        if found then
            is_new := true;
            ev_id := pgq._insert_event_raw(
                queue_name, ev_id, now(), null::int4, null::int4,
                ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
            );
            return;
        end if;
        -- Committed since the check, or forgotten since the insert.
    end loop;
end;
$$;
