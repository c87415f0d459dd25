create or replace function pgq._prove_event(i_queue_name text, i_event_id int8, i_type text)
returns int8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Notes that a control event of this very transaction was written by somebody entitled; returns
 * its id.
 *
 * Runs with the rights of the caller: the right to insert into pgq.control_event is the proof.
 * Before the insert of the event nobody knows its id, so it is called with the answer of that.
 *
 * The proof of a delayed event is of transaction 0, in which no event is, until _move_delayed()
 * puts the event into the queue: before that, it would fit an event that claims its id.
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
