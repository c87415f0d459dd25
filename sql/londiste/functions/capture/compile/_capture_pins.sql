create or replace function londiste._capture_pins(
    i_settings text[],
    out declared text,
    out entered text,
    out leave text,
    out restored text)
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns what pins settings inside a trigger function.
 *
 * The parts are its variable, its beginning, the statement that ends it early, and its end.
 * i_settings are SET clauses of _capture_settings().
 *
 * A SET clause takes more than a microsecond a call, a check of the setting a tenth of that, and most
 * sessions have the needed values.  An error restores the settings with all else of its
 * transaction or subtransaction.  With search_path among them they stay SET clauses.
 */
declare
    v_name text;
    v_value text;
    v_setting text;
    v_place int4 := 0;
    v_differs text[] := '{}';
    v_before text[] := '{}';
    v_pin text[] := '{}';
    v_back text[] := '{}';
begin
    declared := '';
    entered := '';
    leave := 'return null;';
    restored := '';
    if i_settings = '{}' or starts_with(i_settings[1], 'search_path ') then
        return;
    end if;
    foreach v_setting in array i_settings loop
        v_place := v_place + 1;
        v_name := split_part(v_setting, ' = ', 1);
        v_value := btrim(split_part(v_setting, ' = ', 2), '''');
        v_before := v_before || format('pg_catalog.current_setting(%L)', v_name);
        v_pin := v_pin || format('pg_catalog.set_config(%L, %L, true)', v_name, v_value);
        v_back := v_back || format('pg_catalog.set_config(%L, capture.v_session[%s], true)', v_name, v_place);
        v_differs := v_differs || case v_name
            -- The order of day and month is for input only.
            when 'DateStyle' then format('pg_catalog.left(%s, 3) operator(pg_catalog.<>) ''ISO''', v_before[v_place])
            when 'TimeZone' then format('%s operator(pg_catalog.<>) ''UTC'' and %1$s operator(pg_catalog.<>) ''Etc/UTC''',
                v_before[v_place])
            else format('%s operator(pg_catalog.<>) %L', v_before[v_place], v_value)
        end;
    end loop;
    declared := '    v_session pg_catalog.text[];' || E'\n';
    entered := format(E'    if %s\n    then\n        v_session := array[%s];\n        perform %s;\n    end if;\n'
            || E'    <<pinned>>\n    begin\n',
        array_to_string(v_differs, E'\n        or '),
        array_to_string(v_before, ', '),
        array_to_string(v_pin, ', '));
    leave := 'exit pinned;';
    restored := format(E'    end;\n    if v_session is not null then\n        perform %s;\n    end if;\n',
        array_to_string(v_back, ', '));
end;
$$;
