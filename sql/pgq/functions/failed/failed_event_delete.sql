create or replace function pgq.failed_event_delete(
    x_queue_name text,
    x_consumer_name text,
    x_event_id int8
)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Deletes a failed event of a consumer.  Returns 1.
 *
 * Allowed to the owner of the consumer and to administrators.
 *
 * Raises LD106 when the event is not among the failed ones.
 */
declare
    v_sub pgq.registration := pgq._require_subscription(x_queue_name, x_consumer_name);
begin
    perform pgq._require_owner(v_sub.sub_queue, v_sub.sub_consumer, 'move');
    delete from pgq.failed_queue where ev_owner = v_sub.sub_id and ev_id = x_event_id;
    if not found then
        perform pgq._raise_no_failed_event(x_queue_name, x_consumer_name, x_event_id);
    end if;
    return 1;
end;
$$;

create or replace function pgq.failed_event_delete_all(x_queue_name text, x_consumer_name text)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Deletes all failed events of a consumer.  Returns their number.
 *
 * Allowed to the owner of the consumer and to administrators.
 */
declare
    v_sub pgq.registration := pgq._require_subscription(x_queue_name, x_consumer_name);
    v_count int4;
begin
    perform pgq._require_owner(v_sub.sub_queue, v_sub.sub_consumer, 'move');
    delete from pgq.failed_queue where ev_owner = v_sub.sub_id;
    get diagnostics v_count = row_count;
    return v_count;
end;
$$;
