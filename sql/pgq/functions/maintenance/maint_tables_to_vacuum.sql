create or replace function pgq.maint_tables_to_vacuum()
returns setof text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the small, often changed tables that need a vacuum, except those that autovacuum cleans.
 */
begin
    if current_setting('autovacuum') = 'on' then
        return;
    end if;
    return query
    select n.nspname || '.' || c.relname
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'r'
        and (n.nspname, c.relname) in (
            ('pgq', 'registration'),
            ('pgq', 'position_state'),
            ('pgq', 'consumer'),
            ('pgq', 'queue'),
            ('pgq', 'tick'),
            ('pgq', 'retry_queue'),
            ('pgq', 'failed_queue'),
            ('pgq', 'delayed_event'),
            ('pgq', 'event_key'),
            ('pgq', 'control_event'),
            ('pgq_ext', 'completed_tick'),
            ('pgq_ext', 'completed_batch'),
            ('pgq_ext', 'completed_event'),
            ('pgq_ext', 'partial_batch'),
            ('pgq_ext', 'returned_event'),
            ('pgq_ext', 'known_source'),
            ('pgq_node', 'node_location'),
            ('pgq_node', 'node_info'),
            ('pgq_node', 'local_state'),
            ('pgq_node', 'subscriber_info'),
            ('londiste', 'table_info'),
            ('londiste', 'seq_info'),
            ('londiste', 'applied_execute'),
            ('londiste', 'pending_fkeys')
        )
    order by 1;
end;
$$;
