create or replace function pgq_node._keep_consumer(i_queue_name text, i_consumer_name text)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Reserves the consumer of a node to administrators and to the role that registers the node.
 *
 * The consumer is the worker of the node, or its marker.  An earlier owner of the name loses it,
 * unless it is the same role.
 */
    insert into pgq.consumer_owner as o (own_queue, own_consumer, own_role, own_exclusive)
    select q.queue_id, c.co_id, pgq._caller(), true
    from pgq.queue as q, pgq.consumer as c
    where q.queue_name = i_queue_name and c.co_name = i_consumer_name
    on conflict on constraint own_pkey do update
        set own_role = excluded.own_role, own_exclusive = true;
$$;
