create or replace function pgq.maint_purge_keys(i_queue_name text)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Forgets up to 10000 keys of insert_event_once() that are older than the queue's key_retention;
 * returns how many.
 *
 * Call it until it answers 0.  A key that a producer comes with at this moment stays for now.
 */
declare
    v_count int4;
begin
    delete from pgq.event_key
    where ctid = any (array(
        select k.ctid
        from pgq.event_key k
        join pgq.queue q on q.queue_id = k.key_queue
        where q.queue_name = i_queue_name
            and k.key_time < now() - q.queue_key_retention
        order by k.key_time
        limit 10000
        for update of k skip locked
    ));
    get diagnostics v_count = row_count;
    return v_count;
end;
$$;
