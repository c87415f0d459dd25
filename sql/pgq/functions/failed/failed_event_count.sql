create or replace function pgq.failed_event_count(x_queue_name text, x_consumer_name text)
returns int4
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the number of failed events (dead letters) of a consumer.
 */
begin
    return (
        select count(*)
        from pgq.failed_queue
        where ev_owner = (pgq._require_subscription(x_queue_name, x_consumer_name)).sub_id
    );
end;
$$;
