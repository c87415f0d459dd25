create or replace function pgq.maint_retry_events()
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
/*
 * Moves waiting events whose time has come into their queues.  Returns their number.
 *
 * One call moves up to 10 retried events and up to 1000 delayed events.  Call it until it
 * returns 0.
 *
 * The events keep their ids.  So their ids are lower than those of their neighbours in the batch.
 * Events of a queue that accepts no events continue to wait.
 *
 * The settings: without statistics of the table the server would read and sort all due events for
 * each ten.
 */
declare
    v_queues constant int4[] := array(select pgq._queues_that_take_events());
    v_event record;
    v_queue_id int4;
    v_count int4 := 0;
    v_left int4 := 1000;
begin
    -- One mover at a time; consumers can still schedule retries.
    lock table pgq.retry_queue in share update exclusive mode;
    for v_event in
        -- By the time alone, like the index: events of a whole batch have the same time.
        select r.*, q.queue_name
        from (
            select *
            from pgq.retry_queue
            where ev_retry_after <= now() and ev_queue = any (v_queues)
            order by ev_retry_after
            limit 10
        ) as r
        join pgq.queue q on q.queue_id = r.ev_queue
    loop
        perform pgq._insert_event_raw(
            v_event.queue_name, v_event.ev_id, v_event.ev_time, v_event.ev_owner,
            v_event.ev_retry, v_event.ev_type, v_event.ev_data, v_event.ev_extra1,
            v_event.ev_extra2, v_event.ev_extra3, v_event.ev_extra4
        );
        delete from pgq.retry_queue
        where ev_owner = v_event.ev_owner and ev_id = v_event.ev_id;
        v_count := v_count + 1;
    end loop;

    for v_queue_id in
        select q.id
        from pgq._queues_that_take_events() as q (id)
        where exists (
            select 1
            from pgq.delayed_event d
            where d.ev_queue = q.id and d.ev_send_at <= now()
        )
    loop
        v_left := v_left - pgq._move_delayed(v_queue_id, v_left);
        exit when v_left <= 0;
    end loop;
    return v_count + 1000 - v_left;
end;
$$;
