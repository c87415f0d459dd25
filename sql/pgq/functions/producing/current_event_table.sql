create or replace function pgq.current_event_table(x_queue_name text)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the table that currently takes the queue's events, for producers that use COPY.
 *
 * The result has the form schema.name and is valid in this transaction only.  The caller must set
 * ev_time.  The columns ev_id and ev_txid have defaults.
 */
declare
    v_table text;
    v_disabled boolean;
begin
    -- As in insert_event_raw(): the transaction gets its id before it reads the current table.
    perform txid_current();

    select queue_data_pfx || '_' || queue_cur_table, queue_disable_insert
    into v_table, v_disabled
    from pgq.queue
    where queue_name = x_queue_name;
    if not found then
        perform pgq._raise_no_queue('Event queue not found', x_queue_name);
    end if;
    if v_disabled and current_setting('session_replication_role') <> 'replica' then
        raise exception using
            errcode = 'LD102',
            message = 'Writing to queue disabled',
            detail = format('queue %s does not accept events in this database', x_queue_name),
            hint = 'write on the root node of the cascade, or enable it: '
                || format('select pgq.set_queue_config(%L, %L, %L)',
                          x_queue_name, 'disable_insert', 'false');
    end if;
    return v_table;
end;
$$;
