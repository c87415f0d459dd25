create or replace function londiste._install_capture(
    i_relid oid,
    i_table_name text,
    i_args text[])
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
/*
 * Creates or replaces the trigger function of a table.  Returns its quoted name.
 *
 * The settings are pinned because captured text must not depend on the session that
 * writes.  The function runs with its owner's rights, so that writers of the table need
 * none on the queue.  With expressions of the user it runs with the writer's rights, because
 * functions of other owners that they call must not get more rights.
 */
declare
    v_options record := londiste._capture_options(i_args[3:]);
    v_settings text[] := londiste._capture_settings(i_relid, i_args);
    v_function text := format('londiste_capture.%I', londiste._capture_name(i_args[1], i_table_name));
    v_owner oid;
    v_is_new boolean;
    v_statement text;
begin
    -- A role that may capture tables could have created it before: the role would keep it.
    select p.proowner into v_owner
    from pg_proc as p
    where p.oid = to_regprocedure(v_function || '()');
    v_is_new := not found;
    if not v_is_new and v_owner <> quote_ident(current_user)::regrole
        and not pg_has_role(v_owner, (select c.relowner from pg_class as c where c.oid = i_relid), 'usage')
    then
        execute format('alter function %s() owner to %I', v_function, current_user);
    end if;
    execute format('create or replace function %s() returns trigger language plpgsql %s %s as %L',
        v_function,
        case
            when v_options.condition is null and num_nonnulls(variadic v_options.extras) = 0
            then 'security definer'
            else 'security invoker'
        end,
        coalesce(
            (select string_agg('set ' || s.setting, ' ' order by s.place)
            from unnest(v_settings)
                with ordinality as s (setting, place)
            where (londiste._capture_pins(v_settings)).declared = ''),
            ''),
        londiste._capture_body(i_relid, i_args, quote_ident(current_user)::regrole));
    if v_is_new then
        perform pgq._revoke_defaults('function'::text, v_function || '()');
    end if;
    for v_statement in
        select g from londiste._capture_grants(i_relid, to_regprocedure(v_function || '()')::oid) as g
    loop
        execute v_statement;
    end loop;
    -- The function stays when somebody drops its triggers, which show the options otherwise.
    execute format('comment on function %s() is %L', v_function,
        json_build_object('queue', i_args[1], 'table', londiste._full_name(i_table_name),
            'options', i_args[3:])::text);
    return v_function;
end;
$$;
