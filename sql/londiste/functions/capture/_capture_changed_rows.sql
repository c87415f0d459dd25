create or replace function londiste._capture_changed_rows(
    i_relid oid,
    i_args text[],
    i_op text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * The statement that captures the transition tables of any statement on a table: an event or a state per row,
 * for the columns there are now.
 *
 * Made once for a statement, when the table has changed since its capture was made, or when keys
 * have changed and states cannot be looked up.  It compares keys as sets.
 */
declare
    v_pieces record := londiste._capture_pieces(i_relid, i_args, 'n', 'o');
    v_flag text := 'londiste.resolve_' || i_relid;
    v_may_look bool := londiste._capture_may_look(i_relid);
    v_state bool := v_may_look
        and (pg_trigger_depth() > 1
            or coalesce(current_setting(v_flag, true), '') = '1'
            or londiste._capture_always_state(i_relid, v_pieces.key_columns)
            -- Rows of tables that inherit are among the others, and a state is looked up without them.
            or exists (select from pg_inherits as h where h.inhparent = i_relid));
    v_from text := case i_op when 'DELETE' then 'old_rows as o' else 'new_rows as n' end;
    v_event text := format('select pgq.insert_event(%L, e.a, e.b, e.c, e.d, e.e, e.f)::text'
            || ' from %%s cross join lateral (%%s) as e (a, b, c, d, e, f) where %%s',
        replace(i_args[1], '%', '%%'));
    v_log text := format('select case set_config(%L, ''1'', true) when ''1'''
            || ' then londiste._log_state(%L, e.a, e.b, e.c, e.d, e.e, e.f, e.g, e.h)::text end'
            || ' from %%s cross join lateral (%%s) as e (a, b, c, d, e, f, g, h) where %%s',
        v_flag, replace(i_args[1], '%', '%%'));
    v_again text;
    v_gone text;
    v_come text;
    v_changed text;
begin
    if i_op <> 'INSERT' and v_pieces.on_update is null then
        return format('select londiste._capture_needs_key(%L, %L) from %s limit 1',
            i_op, i_args, v_from);
    end if;
    if i_op <> 'UPDATE' then
        if v_state and v_pieces.on_update is not null then
            return format(v_log, v_from,
                case i_op when 'DELETE' then v_pieces.state_of_old else v_pieces.state_of_new end,
                'true');
        end if;
        if i_op = 'DELETE' and v_may_look then
            -- Another part of the same query may have inserted a key again, and have been told before:
            -- as in _capture_statement_body().
            v_again := format('(select exists (select from old_rows as o join %s as t on %s))',
                londiste._capture_from(i_relid),
                londiste._capture_same(i_relid, v_pieces.key_columns, 't', 'o'));
            return format(v_log, v_from, v_pieces.state_of_old, v_again) || ' union all '
                || format(v_event, v_from, v_pieces.on_gone, 'not ' || v_again);
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
