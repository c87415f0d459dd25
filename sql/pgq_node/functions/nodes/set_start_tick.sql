create or replace function pgq_node.set_start_tick(
    i_queue_name text,
    i_tick_time timestamptz,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Gives the first tick of a new branch the time that it has at the provider.
 *
 * create_node() does not know that time.  Nodes compare times: a tick of one id and two times belongs
 * to two histories of the queue.
 *
 * ret_code -- 200 set; 404 this database is no branch of the queue, or it has received ticks since.
 */
begin
    update pgq.tick t
    set tick_time = i_tick_time
    from pgq_node.node_info n
        join pgq_node.local_state s on s.queue_name = n.queue_name and s.consumer_name = n.worker_name
        join pgq.queue q on q.queue_name = n.queue_name
    where n.queue_name = i_queue_name
        and n.node_type = 'branch'
        and t.tick_queue = q.queue_id
        and t.tick_id = s.last_tick_id
        and not exists (
            select from pgq.tick later
            where later.tick_queue = q.queue_id and later.tick_id > s.last_tick_id);
    if not found then
        select 404, 'Not a new branch: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    select 200, 'First tick set' into ret_code, ret_note;
end;
$$;
