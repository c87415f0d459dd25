create or replace function londiste._renew_captures()
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
/*
 * Recreates the functions of captures whose tables or queues have changed or were restored.
 *
 * Only captures that the caller owns, and that need no new trigger, and so no lock on the table.
 * Returns their number.
 *
 * The function of a table with another owner becomes executable for that one.
 * New partitions get the TRUNCATE triggers, unless another session uses them now.  Other cases are left
 * to refresh_capture(): until then changes are captured, only slower.  Tables that another session has
 * locked wait for the next maintenance.
 */
declare
    v_locked oid[] := londiste._tables_locked_elsewhere();
    v_capture record;
    v_count int4 := 0;
begin
    for v_capture in
        select c.relid, c.table_name, c.function_id
        from londiste._captures(null::text) as c
            join pg_proc as p on p.oid = c.function_id
        where p.proowner = quote_ident(current_user)::regrole
            and p.pronamespace = 'londiste_capture'::regnamespace
            and p.proname = londiste._capture_name(c.args[1], c.table_name)
            and case when c.relid <> all (v_locked) then
                -- Also from a dump, where the table had another oid, and from an older version.
                position(londiste._capture_changed(c.relid, c.args,
                    position('   Form: statement.  Pinned:' in p.prosrc) > 0) in p.prosrc) = 0
                -- The queue was dropped and created again.
                or position('pg_sequence_last_value(' in p.prosrc) > 0
                    and position(londiste._capture_way(c.args[1]) in p.prosrc) = 0
            end
    loop
        -- Each holds a lock until the end; the next maintenance continues.
        exit when v_count = 1000;
        begin
            v_count := v_count + londiste._renew_capture(v_capture.relid, v_capture.function_id)::int4;
        exception when others then
            raise warning 'capture of %: %', v_capture.table_name, sqlerrm;
        end;
    end loop;
    for v_capture in
        select c.table_name, g as statement
        from londiste._captures(null::text) as c
            join pg_proc as p on p.oid = c.function_id
            cross join lateral londiste._capture_grants(c.relid, c.function_id) as g
        where p.proowner = quote_ident(current_user)::regrole
            and p.proname = londiste._capture_name(c.args[1], c.table_name)
    loop
        begin
            execute v_capture.statement;
        exception when others then
            raise warning 'rights on the capture of %: %', v_capture.table_name, sqlerrm;
        end;
    end loop;
    for v_capture in
        select c.relid, c.table_name, c.args, p.oid::regproc as function
        from londiste._captures(null::text) as c
            join pg_proc as p on p.oid = c.function_id
            join pg_class as r on r.oid = c.relid
        where p.proowner = quote_ident(current_user)::regrole
            and r.relkind = 'p'
    loop
        begin
            perform londiste._capture_partitions(v_capture.relid, v_capture.function::text, v_capture.args, false);
        exception when others then
            raise warning 'partitions of %: %', v_capture.table_name, sqlerrm;
        end;
    end loop;
    return v_count;
end;
$$;
