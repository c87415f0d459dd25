create or replace function pgq_node.maint_watermark(i_queue_name text)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Publishes the global watermark of a root whose marker lags by five minutes or more.
 *
 * So it moves even if no worker runs on the root.  Always returns 0: no further call is due.
 * A root that was upgraded proves its control events from the first call on.
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
    perform pgq._expect_proofs(n.queue_name)
    from pgq_node.node_info n
    where n.queue_name = i_queue_name and n.node_type = 'root';
    return 0;
end;
$$;
