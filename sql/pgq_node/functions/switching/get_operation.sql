create or replace function pgq_node.get_operation(
    i_queue_name text,
    out token uuid,
    out operation text,
    out node_name text,
    out new_node text,
    out from_node text,
    out resume boolean,
    out last_tick int8,
    out operator text,
    out started_at timestamptz)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
    /* Returns the operation that is in progress on this node; no row when there is none. */
    select o.token, o.operation, o.node_name, o.new_node, o.from_node, o.resume,
        o.last_tick, o.operator, o.started_at
    from pgq_node.operation o
    where o.queue_name = i_queue_name;
$$;
