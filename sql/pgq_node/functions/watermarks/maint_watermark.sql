create or replace function pgq_node.maint_watermark(i_queue_name text)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Publishes the global watermark of a root whose marker is five minutes behind or more, so
 * that it moves even where no worker runs on the root.
 *
 * Always 0: the ticker need not call again.
 */
begin
    perform 1
    from pgq_node.node_info n,
        lateral pgq.get_consumer_info(n.queue_name, '.global_watermark') i
    where n.queue_name = i_queue_name
        and n.node_type = 'root'
        and i.lag >= interval '5 minutes';
    if found then
        perform pgq_node.set_global_watermark(i_queue_name, null::int8);
    end if;
    return 0;
end;
$$;
