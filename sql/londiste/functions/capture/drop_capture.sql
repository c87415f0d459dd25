create or replace function londiste.drop_capture(i_queue_name text, i_table_name text)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set client_min_messages = warning
as $$
/*
 * Drops the native capture of a table: the triggers of that queue and the generated function.
 *
 * Returns the number of dropped triggers, 0 when there were none.  If the table does not exist any
 * more, the function drops only the generated function.  If the table was renamed, its triggers
 * still call the function with the old name.  So are dropped captures of tables that the queue does
 * not replicate, and that send events of this one (stray_captures).
 */
declare
    v_relid oid := londiste._capture_relation(i_table_name);
    v_function text := londiste._capture_name(i_queue_name, i_table_name);
    v_key_function text := londiste._key_changed_name(i_queue_name, i_table_name);
    v_names text[] := array(
        select londiste.trigger_name(i_queue_name, k.kind)
        from unnest('{"",insert,update,delete,no_partition,commit,truncating,truncate}'::text[]) as k (kind));
    v_partition text := londiste.trigger_name(i_queue_name, 'partition');
    v_strays oid[] := array(
        select s.function_id
        from londiste.table_info as t
            cross join lateral londiste.stray_captures(i_queue_name, t.table_name) as s
        where t.queue_name = i_queue_name
            and t.local
            -- Once, not for each table of the queue.
            and coalesce(t.dest_table, t.table_name) = (select londiste._full_name(i_table_name)));
    v_trigger record;
    v_left record;
    v_functions oid[] := '{}';
    v_count int4 := 0;
begin
    -- Maintenance may be recreating the function.
    perform londiste._lock_capture(v_relid);
    -- A table that has never been captured: nothing of all that follows.
    if v_strays = '{}'
        and not exists (select from pg_trigger as t where t.tgrelid = v_relid and t.tgconstrindid = 0)
        and not exists (select from pg_inherits as i where i.inhparent = v_relid)
        and not exists (
            select from pg_proc as p
            where p.proname = any (array[v_function, v_key_function]::name[])
                and p.pronamespace = any ('{londiste,londiste_capture}'::regnamespace[]))
    then
        return 0;
    end if;
    for v_trigger in
        select t.tgname, t.tgrelid::regclass as relation, t.tgfoid as function_id
        from pg_trigger as t
        where t.tgconstrindid = 0
            and t.tgparentid = 0
            -- Each part by an index: pg_trigger has a row per table and trigger, and none on functions.
            and t.oid = any (array(
                select d.objid
                from pg_proc as p
                    join pg_depend as d on d.refclassid = 'pg_proc'::regclass
                        and d.refobjid = p.oid
                        and d.classid = 'pg_trigger'::regclass
                where (p.proname = v_function::name or p.oid = any (v_strays))
                    and p.pronamespace = any ('{londiste,londiste_capture}'::regnamespace[])
                union all
                select g.oid from pg_trigger as g where g.tgrelid = v_relid and g.tgname = any (v_names)
                union all
                select g.oid
                from pg_partition_tree(v_relid) as r
                    join pg_trigger as g on g.tgrelid = r.relid and g.tgname = v_partition))
        order by t.oid
    loop
        execute format('drop trigger %I on %s', v_trigger.tgname, v_trigger.relation);
        v_functions := v_functions || v_trigger.function_id;
        v_count := v_count + 1;
    end loop;
    -- Functions from the time when the table had another name.
    for v_left in
        select p.oid::regprocedure as signature
        from pg_proc as p
        where p.oid = any (v_functions)
            and p.pronamespace = any ('{londiste,londiste_capture}'::regnamespace[])
            and starts_with(p.proname, '_capture_')
            and p.prorettype = 'trigger'::regtype
            and not exists (
                select from pg_depend as d
                where d.refclassid = 'pg_proc'::regclass
                    and d.refobjid = p.oid
                    and d.classid = 'pg_trigger'::regclass)
    loop
        execute format('drop function %s', v_left.signature);
    end loop;
    -- In schema londiste: created by an older version.
    for v_left in
        select p.oid::regprocedure as signature
        from pg_proc as p
        where p.pronamespace = any ('{londiste,londiste_capture}'::regnamespace[])
            and p.proname = any (array[v_function, v_key_function]::name[])
    loop
        execute format('drop function %s', v_left.signature);
    end loop;
    return v_count;
end;
$$;
