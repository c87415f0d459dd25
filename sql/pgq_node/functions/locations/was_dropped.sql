create or replace function pgq_node.was_dropped(
    i_queue_name text,
    i_node_name text,
    i_node_location text)
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
    /*
     * Returns whether the node at this location was dropped here while it was marked as failed.
     *
     * A failed root that returns asks this.
     */
    select exists (
        select from pgq_node.dropped_node d
        where d.queue_name = i_queue_name
            and d.node_name = i_node_name
            and d.node_location = i_node_location);
$$;
