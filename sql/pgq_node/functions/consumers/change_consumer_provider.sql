create or replace function pgq_node.change_consumer_provider(
    i_queue_name text,
    i_consumer_name text,
    i_new_provider text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Switches a cascaded consumer to another provider.  The consumer confirms it by uptodate = true.
 *
 * ret_code -- 200 stored; 404 unknown node or consumer.
 */
begin
    perform 1 from pgq_node.node_location l
    where l.queue_name = i_queue_name and l.node_name = i_new_provider;
    if not found then
        select 404, 'Unknown node: ' || coalesce(i_queue_name, 'NULL') || '/'
            || coalesce(i_new_provider, 'NULL') into ret_code, ret_note;
        return;
    end if;
    update pgq_node.local_state
    set provider_node = i_new_provider,
        uptodate = false
    where queue_name = i_queue_name and consumer_name = i_consumer_name;
    if not found then
        select 404, 'Unknown consumer: ' || coalesce(i_queue_name, 'NULL') || '/'
            || coalesce(i_consumer_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    -- The operator who switches the consumer has decided about a lost position.
    perform pgq.forget_lost_position(i_queue_name, i_consumer_name);
    select 200, 'Consumer provider node set to: ' || i_new_provider into ret_code, ret_note;
end;
$$;
