create or replace function londiste._unpin_settings(i_before text[])
returns void
language plpgsql
as $$
/* Restores the settings of the session that _pin_settings() returned. */
declare
    v_settings constant pg_catalog.text[] := londiste._capture_every_setting();
begin
    for v_place in 1 .. pg_catalog.cardinality(v_settings) loop
        if i_before[v_place] is not null then
            perform pg_catalog.set_config(
                pg_catalog.split_part(v_settings[v_place], ' = ', 1), i_before[v_place], true);
        end if;
    end loop;
end;
$$;
