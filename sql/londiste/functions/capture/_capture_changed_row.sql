create or replace function londiste._capture_changed_row(
    i_relid oid,
    i_args text[],
    i_op text,
    i_new record,
    i_old record)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Captures a row of a table that has changed since its capture was made.
 *
 * Makes the statements for the columns that there are now and executes them: slow, but no change
 * is lost and no writer fails until refresh_capture() is called.  i_op is KEY for an UPDATE of the key
 * whose new rows a statement trigger will tell.
 */
declare
    v_key text[] := londiste._capture_key_columns(i_relid, i_args);
    v_pieces record;
    v_flag text := 'londiste.resolve_' || i_relid;
    v_state bool := (pg_trigger_depth() > 1
            or current_setting(v_flag, true) = '1'
            or londiste._capture_always_state(i_relid, v_key))
        and v_key <> '{}'
        and londiste._capture_may_look(i_relid);
    v_changed bool := i_op = 'KEY';
    v_silent bool;
    v_sources text[];
    v_source text;
    v_event record;
begin
    if i_op = 'KEY' then
        -- A key that has other columns now makes the trigger fire for every row.  A table without a key
        -- is told of by the statement trigger.
        if v_key = '{}' then
            return;
        end if;
        execute 'select ' || londiste._capture_key_changed(i_relid, v_key, '($1)', '($2)')
            into v_changed using i_new, i_old;
        if not v_changed then
            return;
        end if;
    end if;
    v_pieces := londiste._capture_pieces(i_relid, i_args, '($1)', '($2)');
    if i_op <> 'INSERT' and v_pieces.on_update is null then
        perform londiste._capture_needs_key(i_op, i_args);
    end if;
    if i_op = 'UPDATE' then
        execute format('select %s, %s', v_pieces.key_changed, coalesce(v_pieces.update_silent, 'false'))
            into v_changed, v_silent using i_new, i_old;
        if v_silent then
            return;
        end if;
    end if;
    if v_state or v_changed and londiste._capture_may_look(i_relid) then
        perform set_config(v_flag, '1', true);
        v_sources := case
            when i_op = 'INSERT' then array[v_pieces.state_of_new]
            when i_op in ('DELETE', 'KEY') then array[v_pieces.state_of_old]
            when v_changed then array[v_pieces.state_of_old, v_pieces.state_of_new]
            else array[v_pieces.state_of_new]
        end;
        foreach v_source in array v_sources loop
            execute format('select londiste._log_state(%L, s.a, s.b, s.c, s.d, s.e, s.f, s.g, s.h) from (%s) as s (a, b, c, d, e, f, g, h)', i_args[1], v_source)
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
