create or replace function pgq_node._keep_consumer(i_queue_name text, i_consumer_name text)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Keeps a consumer by which a node reads, or is waited for, to its owner and administrators.
 */
    update pgq.consumer_owner as o
    set own_exclusive = true
    from pgq.queue as q, pgq.consumer as c
    where q.queue_name = i_queue_name
        and c.co_name = i_consumer_name
        and o.own_queue = q.queue_id
        and o.own_consumer = c.co_id
        and not o.own_exclusive;
$$;
