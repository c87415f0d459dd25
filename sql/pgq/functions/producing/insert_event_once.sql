create or replace function pgq.insert_event_once(
    queue_name text,
    event_key text,
    ev_type text,
    ev_data text,
    ev_extra1 text default null,
    ev_extra2 text default null,
    ev_extra3 text default null,
    ev_extra4 text default null,
    out ev_id int8,
    out is_new boolean
)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Inserts an event unless the queue already received one with the same key.
 *
 * Returns the id of the event with this key, and whether this call inserted it.
 *
 * When several producers use one key at the same time, the first one inserts.  The others wait for
 * the end of its transaction.  If it commits, they get its id.  If it rolls back, the next one
 * inserts.  The function compares keys only, not the rest of the event.
 *
 * event_key -- up to 1000 bytes.  The queue remembers it for key_retention, counted from the
 *     insert.  The first maintenance after that deletes it.
 *
 * Raises the errors of insert_event().  In isolation levels repeatable read and serializable it
 * raises 40001 when the key is newer than the transaction's snapshot.
 */
begin
    if pg_has_role('pgq_admin', 'usage') then
        select o.ev_id, o.is_new
        into ev_id, is_new
        from pgq._insert_event_once(
            queue_name, event_key, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
        ) as o;
        if is_new and pgq._is_control(ev_type) then
            perform pgq._prove_event(queue_name, ev_id, ev_type);
        end if;
    else
        select o.ev_id, o.is_new
        into ev_id, is_new
        from pgq._produce_once(
            queue_name, event_key, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4,
            current_user
        ) as o;
    end if;
end;
$$;
