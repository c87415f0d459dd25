create or replace function pgq.tune_storage(i_queue_name text)
returns int4
language plpgsql
strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * Sets the storage parameters of the queue's event tables.  Returns 1, or 0 for an unknown queue.
 *
 * Rows are never changed, and rotation truncates the tables.  So pages can be filled completely,
 * and autovacuum is switched off.
 */
declare
    v_queue pgq.queue;
    v_table text;
begin
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    if not found then
        return 0;
    end if;
    for v_table in select pgq.quote_fqname(t) from pgq._event_tables(v_queue) as t loop
        execute format(
            'alter table %s set ('
            ' fillfactor = 100, autovacuum_enabled = off, toast.autovacuum_enabled = off)',
            v_table
        );
    end loop;
    return 1;
end;
$$;
