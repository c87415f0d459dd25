create or replace function londiste._capture_changed_row(
    i_relid oid,
    i_args text[],
    i_pieces text,
    i_op text,
    i_new record,
    i_old record)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set DateStyle = 'ISO, YMD'
set IntervalStyle = postgres
set TimeZone = UTC
set extra_float_digits = 1
set bytea_output = hex
set xmloption = content
set lc_monetary = 'C'
set standard_conforming_strings = on
set quote_all_identifiers = off
as $$
/*
 * Captures a row of a table that has changed since its capture was created.
 *
 * i_pieces -- the result of _capture_now() for ($1) and ($2).
 *
 * Its statements are executed for each row.  This is slower, but no change is lost and no writer
 * fails until the capture is recreated.  All settings are pinned, because the capture pins those for
 * its old columns; the path is the one of the user's expressions.
 */
declare
    v_pieces record;
    v_flag text := 'londiste.resolve_' || i_relid;
    v_may_look bool;
    v_changed bool := false;
    v_silent bool;
    v_sources text[];
    v_source text;
begin
    perform set_config('search_path', coalesce((londiste._capture_options(i_args[3:])).path,
        current_setting('search_path')), true);
    select * into v_pieces
    from json_to_record(i_pieces::json) as p (
        on_insert text, on_update text, on_delete text, state_of_old text, state_of_new text,
        key_changed text, update_silent text, always_state bool);
    if i_op <> 'INSERT' and v_pieces.on_update is null and v_pieces.on_delete is null then
        perform londiste._capture_needs_key(i_op, i_args);
    end if;
    if i_op = 'UPDATE' and v_pieces.on_update is null then
        -- By the whole row.
        v_changed := true;
    elsif i_op = 'UPDATE' then
        execute format('select %s, %s', v_pieces.key_changed, coalesce(v_pieces.update_silent, 'false'))
            into v_changed, v_silent using i_new, i_old;
        if v_silent then
            return;
        end if;
    end if;
    if v_pieces.on_update is not null
        and (v_changed
            or v_pieces.always_state
            or pg_trigger_depth() > 1
            or current_setting(v_flag, true) = '1')
        and londiste._capture_may_look(i_relid)
    then
        perform set_config(v_flag, '1', true);
        v_sources := case
            when i_op = 'INSERT' then array[v_pieces.state_of_new]
            when i_op = 'DELETE' then array[v_pieces.state_of_old]
            when v_changed then array[v_pieces.state_of_old, v_pieces.state_of_new]
            else array[v_pieces.state_of_new]
        end;
        foreach v_source in array v_sources loop
            execute format('select londiste._log_state(%L::text, s.a, s.b, s.c, s.d, s.e, s.f, s.g, s.h) from (%s) as s (a, b, c, d, e, f, g, h)', i_args[1], v_source)
                using i_new, i_old;
        end loop;
        return;
    end if;
    v_sources := case
        when i_op = 'INSERT' then array[v_pieces.on_insert]
        when i_op = 'DELETE' then array[v_pieces.on_delete]
        when v_changed then array[v_pieces.on_delete, v_pieces.on_insert]
        else array[v_pieces.on_update]
    end;
    foreach v_source in array v_sources loop
        execute format('select pgq.insert_event(%L, e.a, e.b, e.c, e.d, e.e, e.f) from (%s) as e (a, b, c, d, e, f)', i_args[1], v_source)
            using i_new, i_old;
    end loop;
end;
$$;
