create or replace function pgq_node._is_open(i_queue_name text)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    /* Returns whether this node is a root that accepts events, and no change has closed it. */
    select exists (
        select
        from pgq.queue q
            join pgq_node.node_info n on n.queue_name = q.queue_name
            left join pgq_node.operation o
                on o.queue_name = n.queue_name
                    and o.node_name = n.node_name
                    and o.last_tick is not null
        where q.queue_name = i_queue_name
            and not q.queue_disable_insert
            and n.node_type = 'root'
            and o.queue_name is null);
$$;
