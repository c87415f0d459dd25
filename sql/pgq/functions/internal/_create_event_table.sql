create or replace function pgq._create_event_table(i_queue pgq.queue, i_nr int4)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Creates one of the event tables of a queue, with its index; its grants come later.
 */
declare
    v_table text := (i_queue).queue_data_pfx || '_' || i_nr;
begin
    execute format('create table %s () inherits (%s)', v_table, (i_queue).queue_data_pfx);
    perform pgq._revoke_defaults('table'::text, v_table);
    execute format(
        'alter table %s alter column ev_id set default nextval(%L)',
        v_table,
        (i_queue).queue_event_seq
    );
    execute format(
        'create index %I on %s (ev_txid)',
        split_part(v_table, '.', 2) || '_txid_idx',
        v_table
    );
    perform pgq._identify_rows(pgq.quote_fqname(v_table));
    perform pgq._compress_event_table(pgq.quote_fqname(v_table));
end;
$$;
