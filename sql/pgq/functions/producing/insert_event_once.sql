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
 * Inserts an event unless one with this key was inserted into the queue before; returns the id of
 * the one there is, and whether it was inserted now.
 *
 * Of producers that come with one key at a time the first inserts, the others wait for the end of
 * its transaction: if it commits they get its id, if not the next one inserts.  The rest of the
 * event is not compared.
 *
 * event_key -- up to 1000 bytes.  It is remembered for key_retention of the queue, counted from
 *     the insert, and forgotten by the first maintenance after that.
 *
 * Raises what insert_event() raises, and 40001 in isolation level repeatable read or serializable
 * when the key is newer than the transaction's snapshot.
 */
begin
    if pg_has_role('pgq_admin', 'usage') then
        select o.ev_id, o.is_new
        into ev_id, is_new
        from pgq._insert_event_once(
            queue_name, event_key, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
        ) as o;
    else
        select o.ev_id, o.is_new
        into ev_id, is_new
        from pgq._produce_once(
            queue_name, event_key, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
        ) as o;
    end if;
end;
$$;
