create or replace function londiste.drop_capture(i_queue_name text, i_table_name text)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Ends the capture of a table: drops our triggers of that queue and the generated function.
 *
 * Returns the number of triggers dropped, 0 when there were none.  The table may be gone
 * already; then only the function is left to drop.
 */
declare
    v_relid oid := londiste._capture_relation(i_table_name);
    v_trigger record;
    v_count int4 := 0;
begin
    for v_trigger in
        select t.tgname
        from pg_trigger as t
        where t.tgrelid = v_relid
            and not t.tgisinternal
            and t.tgname in (
                londiste.trigger_name(i_queue_name),
                londiste.trigger_name(i_queue_name, 'update'),
                londiste.trigger_name(i_queue_name, 'truncate'))
    loop
        execute format('drop trigger %I on %s', v_trigger.tgname, v_relid::regclass);
        v_count := v_count + 1;
    end loop;
    execute format('drop function if exists londiste.%I()',
        londiste._capture_name(i_queue_name, i_table_name));
    return v_count;
end;
$$;
