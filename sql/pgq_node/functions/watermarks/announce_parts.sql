create or replace function pgq_node.announce_parts(
    i_combined_queue_name text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Where a combined queue is root: says how far each of its parts is, at this place of the queue
 * (events pgq.tick-id).  So stand-by nodes know it of parts from which nothing comes, too.  Whatever
 * moves a part afterwards says so itself: see insert_part_tick().
 *
 * 200 said; 301 not a root; 404 no node here.
 */
declare
    v_type text;
    v_pfx text;
    v_part record;
    v_count int4 := 0;
begin
    select n.node_type, q.queue_data_pfx into v_type, v_pfx
    from pgq_node.node_info n left join pgq.queue q on q.queue_name = n.queue_name
    where n.queue_name = i_combined_queue_name;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_combined_queue_name, 'NULL')
            into ret_code, ret_note;
        return;
    end if;
    if v_type <> 'root' then
        select 301, 'Node is not root: ' || v_type into ret_code, ret_note;
        return;
    end if;
    -- As workers do it: first the event tables, then the position.  With the row locked no worker has
    -- written the tick behind this one with a lower number.
    execute format('lock table %s in row exclusive mode', pgq.quote_fqname(v_pfx));
    for v_part in
        select s.queue_name, s.last_tick_id
        from pgq_node.local_state s
            join pgq_node.node_info p
                on p.queue_name = s.queue_name and p.worker_name = s.consumer_name
        where p.combined_queue = i_combined_queue_name
        order by s.queue_name
        for update of s
    loop
        perform pgq._insert_event(i_combined_queue_name, 'pgq.tick-id', v_part.last_tick_id::text,
            v_part.queue_name, null::text, null::text, null::text);
        v_count := v_count + 1;
    end loop;
    select 200, format('Ticks of %s parts written', v_count) into ret_code, ret_note;
end;
$$;
