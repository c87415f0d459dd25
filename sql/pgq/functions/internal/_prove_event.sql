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
 */
begin
    insert into pgq.control_event (ev_queue, ev_id, ev_type)
    select q.queue_id, i_event_id, i_type
    from pgq.queue q
    where q.queue_name = i_queue_name;
    return i_event_id;
end;
$$;
