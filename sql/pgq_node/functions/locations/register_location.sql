create or replace function pgq_node.register_location(
    i_queue_name text,
    i_node_name text,
    i_node_location text,
    i_dead boolean,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the location of a node and whether the node is marked as failed.
 *
 * i_node_location -- connection string; NULL keeps the known location, and has no effect for an
 *     unknown node.
 *
 * The root sends a change to all nodes as event pgq.location-info.
 *
 * ret_code -- always 200.
 */
declare
    v_changed boolean;
begin
    if i_node_location is null then
        update pgq_node.node_location l
        set dead = coalesce(i_dead, false)
        where l.queue_name = i_queue_name
            and l.node_name = i_node_name
            and l.dead <> coalesce(i_dead, false);
    else
        -- A node that was dropped there was made again.
        delete from pgq_node.dropped_node d
        where d.queue_name = i_queue_name
            and d.node_name = i_node_name
            and d.node_location = i_node_location;
        insert into pgq_node.node_location as l (queue_name, node_name, node_location, dead)
        values (i_queue_name, i_node_name, i_node_location, coalesce(i_dead, false))
        on conflict (queue_name, node_name) do update
            set node_location = excluded.node_location,
                dead = excluded.dead
            where (l.node_location, l.dead) <> (excluded.node_location, excluded.dead);
    end if;
    v_changed := found;

    if v_changed and exists (
        select from pgq_node.node_info n
        where n.queue_name = i_queue_name and n.node_type = 'root')
    then
        perform pgq._prove_event(i_queue_name,
            pgq._insert_event(i_queue_name, 'pgq.location-info', i_node_name,
                i_queue_name, i_node_location, coalesce(i_dead, false)::text, null::text),
            'pgq.location-info');
    end if;

    select 200, 'Location registered' into ret_code, ret_note;
end;
$$;
