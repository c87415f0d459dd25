create or replace function pgq.failed_event_list(
    x_queue_name text,
    x_consumer_name text,
    x_count int4,
    x_offset int4
)
returns setof pgq.failed_queue
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns failed events of a consumer in the order of their ids.
 *
 * x_count -- maximum number of events; null: all.
 * x_offset -- number of events to skip first; null: none.
 */
declare
    v_sub pgq.registration := pgq._require_subscription(x_queue_name, x_consumer_name);
begin
    if x_count < 0 or x_offset < 0 then
        raise exception using
            errcode = 'LD005',
            message = format('invalid limit and offset: %s events after the first %s',
                             coalesce(x_count::text, 'all'), coalesce(x_offset, 0)),
            hint = 'use numbers from 0 up';
    end if;
    return query
    select *
    from pgq.failed_queue
    where ev_owner = v_sub.sub_id
    order by ev_id
    limit x_count
    offset x_offset;
end;
$$;

create or replace function pgq.failed_event_list(x_queue_name text, x_consumer_name text)
returns setof pgq.failed_queue
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Without x_count and x_offset, the function returns all failed events of the consumer.
 */
    select * from pgq.failed_event_list(x_queue_name, x_consumer_name, null::int4, null::int4);
$$;
