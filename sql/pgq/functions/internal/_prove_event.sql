create or replace function pgq._prove_event(i_queue_name text, i_event_id int8, i_type text)
returns int8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Proves a control event of this transaction, and returns its id.
 *
 * Runs with the rights of the caller: the right to insert into pgq.control_event is the proof.
 * The insert of the event assigns its id, so the call takes the result of that insert.
 *
 * The proof of a delayed event has transaction 0, which contains no event, until _move_delayed()
 * moves the event into the queue.  With a real transaction it would fit an event that claims its id.
 */
begin
    insert into pgq.control_event (ev_queue, ev_id, ev_txid, ev_type)
    select
        q.queue_id,
        i_event_id,
        case
            when exists (
                select
                from pgq.delayed_event d
                where d.ev_queue = q.queue_id and d.ev_id = i_event_id
            ) then 0
            else txid_current()
        end,
        i_type
    from pgq.queue q
    where q.queue_name = i_queue_name;
    return i_event_id;
end;
$$;
