create or replace function londiste._capture_changed_statement(
    i_relid oid,
    i_args text[],
    i_op text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * The statement that captures the transition tables of a table that has changed since its capture
 * was made: an event per row, for the columns there are now.
 */
declare
    v_pieces record := londiste._capture_pieces(i_relid, i_args, 'n', 'o');
    v_flag text := 'londiste.resolve_' || i_relid;
    v_state bool := (pg_trigger_depth() > 1
            or current_setting(v_flag, true) = '1'
            or londiste._capture_always_state(i_relid, v_pieces.key_columns))
        and londiste._capture_may_look(i_relid);
    v_from text := case i_op when 'DELETE' then 'old_rows as o' else 'new_rows as n' end;
begin
    if i_op <> 'INSERT' and v_pieces.on_update is null then
        return format('select londiste._capture_needs_key(%L, %L) from %s limit 1',
            i_op, i_args, v_from);
    end if;
    if v_state and v_pieces.on_update is not null then
        return format('select set_config(%L, ''1'', true), londiste._log_state(%L, e.a, e.b, e.c, e.d,'
                || ' e.e, e.f, e.g, e.h) from %s cross join lateral (%s) as e (a, b, c, d, e, f, g, h)',
            v_flag, i_args[1], v_from,
            case i_op when 'DELETE' then v_pieces.state_of_old else v_pieces.state_of_new end);
    end if;
    return format('select pgq.insert_event(%L, e.a, e.b, e.c, e.d, e.e, e.f)'
            || ' from %s cross join lateral (%s) as e (a, b, c, d, e, f)',
        i_args[1], v_from,
        case i_op
            when 'INSERT' then v_pieces.on_insert
            when 'UPDATE' then v_pieces.on_update
            else v_pieces.on_gone
        end);
end;
$$;
