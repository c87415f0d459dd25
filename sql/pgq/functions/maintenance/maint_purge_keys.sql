create or replace function pgq.maint_purge_keys(i_queue_name text)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
/*
 * Deletes up to 10000 keys of insert_event_once() older than the queue's key_retention.
 *
 * Returns the number of deleted keys; call it until it returns 0.  A key that a producer uses at
 * this moment stays until a later call.  The settings keep each call from reading and sorting all
 * keys.
 */
declare
    v_queue pgq.queue;
    v_count int4;
begin
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    delete from pgq.event_key
    where ctid = any (array(
        select k.ctid
        from pgq.event_key k
        where k.key_queue = v_queue.queue_id
            and k.key_time < now() - v_queue.queue_key_retention
        order by k.key_time
        limit 10000
        for update skip locked
    ));
    get diagnostics v_count = row_count;
    return v_count;
end;
$$;
