create or replace function pgq_ext.is_event_done(
    a_consumer text,
    a_subconsumer text,
    a_batch_id int8,
    a_event_id int8
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
/*
 * Returns whether set_event_done() has stored this event of this batch.
 */
begin
    return exists (
        select 1
        from pgq_ext.completed_event
        where consumer_id = a_consumer
            and subconsumer_id = a_subconsumer
            and batch_id = a_batch_id
            and event_id = a_event_id
    );
end;
$$;

create or replace function pgq_ext.is_event_done(
    a_consumer text,
    a_batch_id int8,
    a_event_id int8
)
returns boolean
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether an event is stored as processed, for a consumer without workers.
 */
    select pgq_ext.is_event_done(a_consumer, '', a_batch_id, a_event_id);
$$;
