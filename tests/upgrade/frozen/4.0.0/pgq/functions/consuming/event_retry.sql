create or replace function pgq.event_retry(
    x_batch_id int8,
    x_event_id int8,
    x_retry_time timestamptz
)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Asks for an event of an open batch to be delivered again after a time, to this consumer only.
 *
 * Returns 1, or 0 when it is waiting for that already.
 */
declare
    v_sub pgq.subscription;
    v_found boolean;
begin
    select * into v_sub from pgq.subscription where sub_batch = x_batch_id;
    execute format(
        'with ev as (select * from (%s) as b where ev_id = $1),'
        ' put as ('
        '   insert into pgq.retry_queue (ev_retry_after, ev_queue, ev_id, ev_time, ev_owner,'
        '       ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)'
        '   select $2, $3, ev_id, ev_time, $4, coalesce(ev_retry, 0) + 1, ev_type, ev_data,'
        '       ev_extra1, ev_extra2, ev_extra3, ev_extra4'
        '   from ev'
        '   on conflict on constraint rq_pkey do nothing'
        '   returning 1)'
        ' select exists (select 1 from put) where exists (select 1 from ev)',
        pgq.batch_event_sql(x_batch_id)
    )
    into v_found
    using x_event_id, x_retry_time, v_sub.sub_queue, v_sub.sub_id;
    if v_found is null then
        raise exception using
            errcode = 'LD106',
            message = 'event not found',
            detail = format('batch %s has no event %s',
                            x_batch_id, coalesce(x_event_id::text, 'NULL')),
            hint = format('select ev_id from pgq.get_batch_events(%s)', x_batch_id);
    end if;
    return v_found::int4;
end;
$$;

create or replace function pgq.event_retry(
    x_batch_id int8,
    x_event_id int8,
    x_retry_seconds int4
)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Asks for an event of an open batch to be delivered again after so many seconds.
 */
begin
    return pgq.event_retry(
        x_batch_id, x_event_id, clock_timestamp() + make_interval(secs => x_retry_seconds)
    );
end;
$$;
