create or replace function pgq.batch_retry(i_batch_id int8, i_retry_seconds int4)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Asks for all events of an open batch to be delivered again after so many seconds.
 *
 * Returns how many there are, without those that are waiting for that already.
 */
declare
    v_sub pgq.subscription;
    v_count int4;
begin
    select * into v_sub from pgq.subscription where sub_batch = i_batch_id;
    if not found then
        raise exception using
            errcode = 'LD106',
            message = format(
                'batch_retry: batch %s not found', coalesce(i_batch_id::text, 'NULL')
            ),
            detail = 'the batch is finished, or never was',
            hint = 'open the next batch: select pgq.next_batch(queue, consumer)';
    end if;
    insert into pgq.retry_queue (
        ev_retry_after, ev_queue, ev_id, ev_time, ev_owner, ev_retry, ev_type, ev_data,
        ev_extra1, ev_extra2, ev_extra3, ev_extra4
    )
    select
        clock_timestamp() + make_interval(secs => i_retry_seconds),
        v_sub.sub_queue,
        b.ev_id,
        b.ev_time,
        v_sub.sub_id,
        coalesce(b.ev_retry, 0) + 1,
        b.ev_type,
        b.ev_data,
        b.ev_extra1,
        b.ev_extra2,
        b.ev_extra3,
        b.ev_extra4
    from pgq.get_batch_events(i_batch_id) as b
    on conflict on constraint rq_pkey do nothing;
    get diagnostics v_count = row_count;
    return v_count;
end;
$$;
