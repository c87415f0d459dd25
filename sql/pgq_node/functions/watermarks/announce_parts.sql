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
 * Writes the position of each part into a combined queue, on its root (events pgq.tick-id).
 *
 * So stand-by nodes know the position of parts without events, too.  Later changes of a position
 * are written by insert_part_tick().
 *
 * ret_code -- 200 written; 301 not a root; 404 this database is no node of the queue.
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
    -- As workers do: first the event tables, then the position.  With the row locked no worker has
    -- written the tick after this one with a lower number.
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
        perform pgq._prove_event(i_combined_queue_name,
            pgq._insert_event(i_combined_queue_name, 'pgq.tick-id', v_part.last_tick_id::text,
                v_part.queue_name, null::text, null::text, null::text),
            'pgq.tick-id');
        v_count := v_count + 1;
    end loop;
    select 200, format('Ticks of %s parts written', v_count) into ret_code, ret_note;
end;
$$;
