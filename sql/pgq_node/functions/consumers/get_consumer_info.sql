create or replace function pgq_node.get_consumer_info(
    i_queue_name text,
    out consumer_name text,
    out provider_node text,
    out last_tick_id int8,
    out paused boolean,
    out uptodate boolean,
    out cur_error text)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
    /* Returns all cascaded consumers of this node, by name. */
    select s.consumer_name, s.provider_node, s.last_tick_id, s.paused, s.uptodate, s.cur_error
    from pgq_node.local_state s
    where s.queue_name = i_queue_name
    order by s.consumer_name;
$$;
