create or replace function pgq._raise_no_failed_event(
    i_queue_name text,
    i_consumer_name text,
    i_event_id int8
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises LD106: the consumer has no such failed event.
 */
begin
    raise exception using
        errcode = 'LD106',
        message = format('no failed event %s', coalesce(i_event_id::text, 'NULL')),
        detail = format('queue %s, consumer %s', i_queue_name, i_consumer_name),
        hint = format('select ev_id, ev_failed_reason from pgq.failed_event_list(%L, %L)',
                      i_queue_name, i_consumer_name);
end;
$$;
