create or replace function londiste._pin_settings()
returns text[]
language plpgsql
as $$
/*
 * Pins all settings on which texts of values can depend, and returns their values before.
 *
 * They stay pinned until _unpin_settings() gets that result.  In a function with SET clauses for them
 * they stay pinned until the function ends.
 */
declare
    v_setting pg_catalog.text;
    v_name pg_catalog.text;
    v_value pg_catalog.text;
    v_now pg_catalog.text;
    v_before pg_catalog.text[] := '{}';
begin
    foreach v_setting in array londiste._capture_every_setting() loop
        v_name := pg_catalog.split_part(v_setting, ' = ', 1);
        v_value := pg_catalog.btrim(pg_catalog.split_part(v_setting, ' = ', 2), '''');
        v_now := pg_catalog.current_setting(v_name);
        -- Setting one takes ten times as long as checking it.
        if v_now operator(pg_catalog.=) v_value then
            v_before := pg_catalog.array_append(v_before, null);
        else
            v_before := pg_catalog.array_append(v_before, v_now);
            perform pg_catalog.set_config(v_name, v_value, true);
        end if;
    end loop;
    return v_before;
end;
$$;
