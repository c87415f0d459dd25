create or replace function londiste.fire_always(
    i_queue_name text,
    i_table_name text,
    i_kinds text[] default '{rows,truncate}')
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Lets the capture of a table fire for replicated rows, too (ENABLE ALWAYS).  Returns the number of changed triggers.
 *
 * i_table_name -- name of the table in this database.
 * i_kinds -- rows, truncate or both: which triggers.
 *
 * Use it for a table that another queue fills, so that the nodes of this queue get these rows.  The
 * triggers stay so when the capture is recreated.  Rows must not come back to the database in which they
 * were written: they would replace newer ones there.  londiste triggers --always checks that.  The caller
 * must own the table.  The function locks it against writers: set lock_timeout.
 */
declare
    v_trigger record;
    v_count int4 := 0;
begin
    for v_trigger in
        select t.relation, t.name
        from londiste._event_triggers(i_queue_name, londiste._capture_relation(i_table_name)) as t
        where t.kind = any (i_kinds)
            and t.enabled <> 'A'
    loop
        execute format('alter table %s enable always trigger %I', v_trigger.relation, v_trigger.name);
        v_count := v_count + 1;
    end loop;
    return v_count;
end;
$$;
