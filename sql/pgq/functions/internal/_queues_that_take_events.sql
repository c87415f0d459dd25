create or replace function pgq._queues_that_take_events()
returns setof int4
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns queue_id of the queues into which this session may insert events.
 */
    select queue_id
    from pgq.queue
    where not queue_disable_insert or current_setting('session_replication_role') = 'replica'
    order by queue_id;
$$;
