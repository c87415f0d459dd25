create or replace function pgq.resume_consumer(i_queue_name text, i_consumer_name text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Resumes a paused consumer at once.  Returns true if it was paused.
 *
 * Allowed to the owner of the consumer and to administrators.
 */
begin
    perform pgq._require_owner(q.queue_id, c.co_id, 'move')
    from pgq.queue as q, pgq.consumer as c
    where q.queue_name = i_queue_name and c.co_name = i_consumer_name;
    delete from pgq.paused_consumer p
    using pgq.queue q, pgq.consumer c
    where q.queue_id = p.pc_queue
        and c.co_id = p.pc_consumer
        and q.queue_name = i_queue_name
        and c.co_name = i_consumer_name;
    if not found then
        return false;
    end if;
    perform pg_notify('pgq_tick', left(i_queue_name, 1000));
    return true;
end;
$$;
