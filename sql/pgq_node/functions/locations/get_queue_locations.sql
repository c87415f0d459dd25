create or replace function pgq_node.get_queue_locations(
    i_queue_name text,
    out node_name text,
    out node_location text,
    out dead boolean)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
    /* Returns the nodes of a queue, by name; no row for an unknown queue. */
    select l.node_name, l.node_location, l.dead
    from pgq_node.node_location l
    where l.queue_name = i_queue_name
    order by l.node_name;
$$;
