create or replace function pgq._revive(
    i_queue_name text,
    i_owner int4,
    i_event_id int8,
    i_all boolean
)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Moves one failed event of a subscription, or all, back into its queue.  Returns their number.
 */
declare
    v_disabled boolean;
    v_event pgq.failed_queue;
    v_count int4 := 0;
begin
    select queue_disable_insert and current_setting('session_replication_role') <> 'replica'
    into v_disabled
    from pgq.queue
    where queue_name = i_queue_name;

    for v_event in
        with gone as (
            delete from pgq.failed_queue
            where ev_owner = i_owner and (i_all or ev_id = i_event_id)
            returning *
        )
        select * from gone order by ev_id
    loop
        v_count := v_count + 1;
        if v_disabled then
            insert into pgq.retry_queue (
                ev_retry_after, ev_queue, ev_id, ev_time, ev_owner, ev_retry, ev_type, ev_data,
                ev_extra1, ev_extra2, ev_extra3, ev_extra4
            )
            values (
                now(), v_event.ev_queue, v_event.ev_id, v_event.ev_time, i_owner, 0,
                v_event.ev_type, v_event.ev_data, v_event.ev_extra1, v_event.ev_extra2,
                v_event.ev_extra3, v_event.ev_extra4
            )
            on conflict on constraint rq_pkey do nothing;
        else
            perform pgq._insert_event_raw(
                i_queue_name, v_event.ev_id, v_event.ev_time, i_owner, 0, v_event.ev_type,
                v_event.ev_data, v_event.ev_extra1, v_event.ev_extra2, v_event.ev_extra3,
                v_event.ev_extra4
            );
        end if;
    end loop;
    return v_count;
end;
$$;
