create or replace function londiste.apply_stage_events(i_queue_name text, i_attempt int8)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Creates the table in which tasks of an attempt stage unchanged events.  Returns its name.
 *
 * For programs that put events into queues.  The table is unlogged, and dropped with the attempt.
 * Raises an error if the attempt is not the current one of its queue.
 */
declare
    v_table text := format('londiste.%I', 'staged_events_' || i_attempt);
begin
    perform 1
    from londiste.large_batch b
    where b.queue_name = i_queue_name
        and b.attempt = i_attempt
    for key share;
    if not found then
        raise exception 'attempt % of queue % is superseded', i_attempt, i_queue_name
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    execute 'create unlogged table ' || v_table
        || ' (slice int4 not null, ev_id int8 not null, ev_time timestamptz not null,'
        || ' ev_type text, ev_data text,'
        || ' ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text)';
    perform pgq._revoke_defaults('table'::text, v_table);
    -- Rows of a slice are read in order.
    execute 'create index on ' || v_table || ' (slice, ev_id)';
    execute 'grant select, insert on ' || v_table || ' to londiste_writer';
    return v_table;
end;
$$;
