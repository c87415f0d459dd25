create or replace function pgq.queue_generation(i_queue_name text)
returns uuid
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the current generation of a queue; null for an unknown queue.
 *
 * A new generation begins when the queue is created and when it is rebased.
 */
    select g.gen_id
    from pgq.queue q
    join pgq.queue_generation g on g.gen_queue = q.queue_id and g.gen_ended is null
    where q.queue_name = i_queue_name;
$$;
