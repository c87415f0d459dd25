create or replace function londiste._capture_changed_rows(
    i_relid oid,
    i_args text[],
    i_pieces text,
    i_op text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the statement that captures the transition tables of any statement on a table.
 *
 * It logs an event or a state per row, for the current columns.  Used when the table has changed since
 * its capture was created, or when keys have changed and states cannot be looked up.
 *
 * i_pieces -- the result of _capture_now() for n and o.  It compares keys as sets.
 */
declare
    v_pieces record;
    v_flag text := 'londiste.resolve_' || i_relid;
    v_may_look bool := londiste._capture_may_look(i_relid);
    v_state bool;
    v_from text := case i_op when 'DELETE' then 'old_rows as o' else 'new_rows as n' end;
    v_event text := format('select pgq.insert_event(%L, e.a, e.b, e.c, e.d, e.e, e.f)::text'
            || ' from %%s cross join lateral (%%s) as e (a, b, c, d, e, f) where %%s',
        replace(i_args[1], '%', '%%'));
    v_log text := format('select case set_config(%L, ''1'', true) when ''1'''
            || ' then londiste._log_state(%L::text, e.a, e.b, e.c, e.d, e.e, e.f, e.g, e.h)::text end'
            || ' from %%s cross join lateral (%%s) as e (a, b, c, d, e, f, g, h) where %%s',
        v_flag, replace(i_args[1], '%', '%%'));
    v_gone text;
    v_come text;
    v_changed text;
begin
    select * into v_pieces
    from json_to_record(i_pieces::json) as p (
        on_insert text, on_update text, on_gone text, line_key text, gone_key text,
        state_of_old text, state_of_new text, again text, always_state bool);
    v_state := v_may_look
        and (pg_trigger_depth() > 1
            or coalesce(current_setting(v_flag, true), '') = '1'
            or v_pieces.always_state
            -- Rows of tables that inherit are among the others, and a state is looked up without them.
            or exists (select from pg_inherits as h where h.inhparent = i_relid));
    if i_op <> 'INSERT' and v_pieces.on_update is null then
        return format('select londiste._capture_needs_key(%L::text, %L::text[]) from %s limit 1',
            i_op, i_args, v_from);
    end if;
    if i_op <> 'UPDATE' then
        if v_state and v_pieces.on_update is not null then
            return format(v_log, v_from,
                case i_op when 'DELETE' then v_pieces.state_of_old else v_pieces.state_of_new end,
                'true');
        end if;
        if i_op = 'DELETE' and v_may_look then
            -- Another part of the same query may have inserted a key again, and its event may come first:
            -- as in _capture_statement_body().
            return format(v_log, v_from, v_pieces.state_of_old, v_pieces.again) || ' union all '
                || format(v_event, v_from, v_pieces.on_gone, 'not ' || v_pieces.again);
        end if;
        return format(v_event, v_from,
            case i_op when 'DELETE' then v_pieces.on_gone else v_pieces.on_insert end, 'true');
    end if;
    v_gone := format('not exists (select from new_rows as n where %s = %s)', v_pieces.line_key, v_pieces.gone_key);
    v_come := format('not exists (select from old_rows as o where %s = %s)', v_pieces.line_key, v_pieces.gone_key);
    v_changed := format('(select exists (select from old_rows as o where %s)'
        || ' or exists (select from new_rows as n where %s))', v_gone, v_come);
    if v_may_look then
        return concat_ws(' union all ',
            format(v_log, 'old_rows as o', v_pieces.state_of_old, v_gone),
            format(v_log, 'new_rows as n', v_pieces.state_of_new,
                case when v_state then 'true' else v_changed end),
            case when not v_state then
                format(v_event, 'new_rows as n', v_pieces.on_update, 'not ' || v_changed) end);
    end if;
    return concat_ws(' union all ',
        format(v_event, 'old_rows as o', v_pieces.on_gone, v_gone),
        format(v_event, 'new_rows as n', v_pieces.on_update, 'not ' || v_come),
        format(v_event, 'new_rows as n', v_pieces.on_insert, v_come));
end;
$$;
