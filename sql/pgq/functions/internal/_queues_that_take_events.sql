create or replace function pgq._queues_that_take_events()
returns setof int4
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * queue_id of the queues that this session may put events into.
 */
    select queue_id
    from pgq.queue
    where not queue_disable_insert or current_setting('session_replication_role') = 'replica'
    order by queue_id;
$$;
