create or replace function londiste._capture_statement_body(
    i_relid oid,
    i_args text[],
    i_direct bool)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the body of the function that captures a table by whole statements.
 *
 * i_args -- the trigger's arguments.
 * i_direct -- true: the function may write into the event tables directly.
 *
 * The first eight rows of a statement become single events, the others go into packed ones.
 * The SQL is static and everything in it is qualified, as in _capture_row_body().  Where columns of
 * the table are visible, variables are qualified, too, because a column may have the same name.
 */
declare
    v_pieces record := londiste._capture_pieces(i_relid, i_args, 'n', 'o');
    v_queue pgq.queue;
    v_settings text[] := londiste._capture_settings(i_relid, i_args);
    v_pins record := londiste._capture_pins(v_settings);
    v_flag text := quote_literal('londiste.resolve_' || i_relid);
    v_raise text := format('perform pg_catalog.set_config(%s, ''1'', true);', v_flag);
    v_changed text := londiste._capture_changed(i_relid, i_args, true);
    v_has_key bool := v_pieces.on_update is not null;
    v_deferrable bool := londiste._capture_deferrable(i_relid, v_pieces.key_columns);
    v_old_keys text;
    v_new_keys text;
    v_same text := londiste._capture_keys_same(i_relid, v_pieces.key_columns);
    v_state_of_old text := 'select e.* from old_rows as o cross join lateral ('
        || v_pieces.state_of_old || ') as e';
    v_state_of_new text := 'select e.* from new_rows as n cross join lateral ('
        || v_pieces.state_of_new || ') as e';
    v_states text := '';
    v_look text := '';
    v_store text := '';
    v_tables text[] := '{}';
    v_columns constant text := '(ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data,'
        ' ev_extra1, ev_extra2, ev_extra3, ev_extra4)';
    -- All settings are pinned, because this function pins what it needs for the columns there were.
    v_slow text := format($source$v_pinned := londiste._pin_settings();
            if tg_relid operator(pg_catalog.=) %1$s then
                execute londiste._capture_changed_rows(%1$s::pg_catalog.oid, tg_argv[0:],
                    londiste._capture_now(%1$L::pg_catalog.regclass::pg_catalog.oid, %2$L::pg_catalog.text[], 'n'::pg_catalog.text, 'o'::pg_catalog.text), tg_op);
            else
                -- From a dump, where the table had another number.
                execute londiste._capture_changed_rows(tg_relid, tg_argv[0:],
                    londiste._capture_now(tg_relid, %2$L::pg_catalog.text[], 'n'::pg_catalog.text, 'o'::pg_catalog.text), tg_op);
            end if;
            perform londiste._unpin_settings(v_pinned);
            perform londiste._renew_stale(tg_relid, tg_name);$source$, i_relid, i_args);
    v_head text;
    v_from text;
    v_event text;
    v_pack text;
    v_line text;
    v_key text;
    v_lines text;
    v_plain text;
    v_packs text;
    v_op text;
    v_into text;
    v_nr int4;
begin
    select * into v_queue from pgq.queue where queue_name = i_args[1];
    if i_direct then
        v_tables := array(
            select pgq.quote_fqname(v_queue.queue_data_pfx || '_' || n.nr)
            from generate_series(0, v_queue.queue_ntables - 1) as n (nr)
            order by n.nr);
        v_head := format('pg_catalog.nextval(%L), pg_catalog.now(),',
            pgq.quote_fqname(v_queue.queue_event_seq));
        v_into := format('(%L::pg_catalog.text[])[(v_way operator(pg_catalog.>>) 1) operator(pg_catalog.+) 1]', v_tables);
    end if;
    if v_has_key then
        v_old_keys := format('open v_keys no scroll for select null::pg_catalog.text, %s from old_rows as o',
            v_pieces.gone_key);
        v_new_keys := format('open v_lines no scroll for select null::pg_catalog.text, %s from new_rows as n',
            v_pieces.line_key);
        v_states := format($source$
    if v_state then
        if tg_op operator(pg_catalog.=) 'UPDATE' then
            select pg_catalog.count(*), %1$s into v_rows, v_same
            from (select from new_rows as n limit 9) as r;
            if v_rows operator(pg_catalog.>) 8 then
                -- Planned for as many rows as there are now.
                execute %2$L;
                v_same := true;
            end if;
        else
            v_same := tg_op operator(pg_catalog.<>) 'DELETE';
        end if;
        if not v_same then
            %3$s
        end if;
        if tg_op operator(pg_catalog.<>) 'DELETE' then
            %4$s
        end if;
        if found then
            %5$s
        end if;$source$,
            v_same,
            format('select pg_catalog.count(londiste._log_state(%L::pg_catalog.text, e.a, e.b, e.c, e.d, e.e, e.f, e.g, e.h))'
                    || ' from old_rows as o cross join lateral (%s) as e (a, b, c, d, e, f, g, h)'
                    || ' where not exists (select from new_rows as n where %s operator(pg_catalog.=) %s)',
                i_args[1], v_pieces.state_of_old, v_pieces.line_key, v_pieces.gone_key),
            londiste._capture_call('londiste._log_state', i_args[1], v_state_of_old, 8),
            londiste._capture_call('londiste._log_state', i_args[1], v_state_of_new, 8),
            v_raise);
        if not v_deferrable then
            -- Another part of the same query may have inserted the key again, and its event may come first.
            -- Then a state is logged, because the row exists by now.  If the other event comes after it, the
            -- order is right.  Without an INSERT in this transaction the check is not needed.
            v_look := format($source$
        if (pg_catalog.pg_stat_get_xact_tuples_inserted(%1$s) operator(pg_catalog.<>) 0
                or pg_catalog.current_setting('track_counts') operator(pg_catalog.<>) 'on')
            and londiste._capture_may_look(%1$s::pg_catalog.oid)
        then
            v_state := case when exists (select from old_rows as o cross join lateral (
                select from %2$s as t where %3$s limit 1) as t) then true end;
        end if;
        if v_state is null then$source$,
                i_relid,
                londiste._capture_from(i_relid),
                londiste._capture_same(i_relid, v_pieces.key_columns, 't', 'o'));
        end if;
    end if;

    foreach v_op in array '{UPDATE,INSERT,DELETE}'::text[] loop
        v_from := case v_op when 'DELETE' then 'old_rows as o' else 'new_rows as n' end;
        v_store := v_store || format(E'%s tg_op operator(pg_catalog.=) %L and v_state is null then',
            case v_op when 'UPDATE' then 'if' else E'\n    elsif' end, v_op);
        if v_op <> 'INSERT' and not v_has_key then
            v_store := v_store || format(E'\n        perform londiste._capture_needs_key(tg_op, tg_argv[0:])'
                || ' where exists (select from %s);', v_from);
            continue;
        end if;
        v_from := v_from || coalesce(' cross join lateral ' || nullif(
            case v_op when 'DELETE' then v_pieces.gone_source else v_pieces.line_source end, ''), '');
        v_pack := v_pieces.pack_types[array_position('{INSERT,UPDATE,DELETE}'::text[], v_op)];
        v_line := case v_op
            when 'DELETE' then v_pieces.gone
            when 'UPDATE' then londiste._capture_guarded(i_relid, i_args, v_pieces.key_columns, 'n', v_pieces.line)
            else v_pieces.line
        end;
        v_key := case when v_op = 'DELETE' then v_pieces.gone_key
            when v_has_key then v_pieces.line_key
            else 'null::pg_catalog.text' end;
        -- The form has no options for the other fields.
        v_event := format('%L, %s, %L, null, %s, null from %s',
            replace(v_pack, ',"pack":true', ''), v_line, i_args[2], v_key, v_from);
        v_lines := format('open v_lines no scroll for select %s, %s from %s offset 8', v_line, v_key, v_from);
        -- A statement made for the table of the moment: many rows are packed, and the function stays short.
        v_packs := format('execute pg_catalog.concat(''insert into '', %s, %L) using v_txid, v_lines%s;',
            v_into,
            format(' %s select %s $1, null, null, %L, p.data, %L, null, p.keys, null from londiste.%s as p',
                v_columns, v_head,
                v_pack,
                i_args[2],
                case v_op when 'UPDATE' then '_pack_updates($2, $3, ' || v_flag || '::pg_catalog.text)' else '_pack_lines($2)' end),
            case v_op when 'UPDATE' then ', v_keys' else '' end);
        v_plain := '';
        for v_nr in 1 .. cardinality(v_tables) loop
            -- All columns in their order: otherwise the plan has a level more.  One operator for all
            -- comparisons: a session reads each from the catalog.
            v_plain := v_plain || format('%s v_way operator(pg_catalog.=) %s or v_way operator(pg_catalog.=) %s then
            insert into %s %s
            select %s capture.v_txid, null, null, %s%s
            limit 8;
            get diagnostics v_done = row_count;
            if not (v_done operator(pg_catalog.=) 8%s) then
                %s
            end if;
        ',
                case v_nr when 1 then 'if' else 'elsif' end, 2 * v_nr - 2, 2 * v_nr - 1,
                v_tables[v_nr], v_columns, v_head,
                v_event,
                case v_op when 'UPDATE' then ' where ' || v_same else '' end,
                case v_op when 'UPDATE' then ' or v_done operator(pg_catalog.=) 0' else '' end,
                v_pins.leave);
        end loop;
        v_store := v_store || case v_op when 'DELETE' then v_look else '' end;
        if v_plain <> '' then
            v_store := v_store || format(E'\n        %send if;\n        if v_done operator(pg_catalog.=) 8'
                || E' and v_way operator(pg_catalog.&) 1 operator(pg_catalog.=) 1 then\n            %s;%s\n'
                || E'            %s\n            close v_lines;%s\n        els',
                v_plain,
                v_lines,
                case v_op when 'UPDATE' then E'\n            ' || v_old_keys || ' offset 8;' else '' end,
                v_packs,
                case v_op when 'UPDATE' then format(E'\n            close v_keys;\n'
                        || E'            if coalesce(pg_catalog.current_setting(%s, true), '''')'
                        || E' operator(pg_catalog.<>) ''1'' then\n                %s\n            end if;',
                    v_flag, v_pins.leave) else '' end);
        else
            v_store := v_store || E'\n        ';
        end if;
        -- Without packs: the rows after the eighth, and all of them where the way is unknown.
        v_plain := case when v_tables = '{}' then '' else format(E'
                if v_done operator(pg_catalog.=) 8 then
                    execute pg_catalog.concat(''insert into '', %s, %L) using v_txid;
                    %s
                end if;',
                v_into,
                format(' %s select %s $1, null, null, %s offset 8',
                    v_columns, v_head, v_event),
                v_pins.leave) end
            || E'\n                ' || londiste._capture_call('pgq.insert_event', i_args[1],
                'select ' || v_event, 6);
        if v_op <> 'UPDATE' then
            v_store := v_store || format(case when v_tables = '{}' then '%s' else E'e%s\n        end if;' end,
                v_plain)
                || case when v_op = 'DELETE' and v_look <> '' then E'\n        end if;' else '' end;
            continue;
        end if;
        v_store := v_store || format($source$if v_done is null or v_done operator(pg_catalog.=) 8 then
            -- Keys have to be compared first.
            %1$s;
            %2$s;
            v_same := londiste._same_keys(v_lines, v_keys);
            close v_lines;
            close v_keys;
            if v_same then%3$s
                %4$s
            end if;
        end if;
        -- Keys have changed.
        v_state := londiste._capture_may_look(%5$s::pg_catalog.oid);$source$,
            v_new_keys, v_old_keys, v_plain, v_pins.leave, i_relid);
    end loop;

    return format($source$
#variable_conflict use_column
/* Made by londiste.create_capture(); to be changed by it or by londiste.refresh_capture().
   Form: statement.  Pinned: %1$s */
<<capture>>
declare
    -- Rows that have changed gave the transaction its id; without one there are none.  The id comes
    -- before the look at the way, as in pgq.insert_event().
    v_txid pg_catalog.int8 := pg_catalog.txid_current_if_assigned();
    v_way pg_catalog.int8 := %2$s;
    v_done pg_catalog.int8;
    v_rows pg_catalog.int8;
    v_same pg_catalog.bool;
    -- Null: events are logged; true: states; false: whatever the current columns are.
    v_state pg_catalog.bool;
    v_lines pg_catalog.refcursor;
    v_keys pg_catalog.refcursor;
    v_pinned pg_catalog.text[];
%3$sbegin
%4$s    if v_txid is null
        or pg_catalog.current_setting('session_replication_role') operator(pg_catalog.=) 'local'
        or pg_catalog.pg_trigger_depth() operator(pg_catalog.>) 1
        or pg_catalog.current_setting(%6$s, true) operator(pg_catalog.=) '1'
        or %7$s
    then
        if v_txid is null or pg_catalog.current_setting('session_replication_role') operator(pg_catalog.=) 'local' then
            %5$s
        elsif tg_op operator(pg_catalog.=) 'TRUNCATE' then
            null;
        elsif %7$s then
            v_state := false;
        %8$send if;
    end if;
    %9$s
    elsif tg_op operator(pg_catalog.=) 'TRUNCATE' then
        %10$s
    end if;%11$s
    %12$s not v_state then
        %13$s
    end if;
%14$s    return null;
end;
$source$,
        coalesce(
            nullif(array_to_string(v_settings, ', '), ''), 'nothing'),
        case when i_direct then londiste._capture_way(i_args[1]) else 'null' end,
        v_pins.declared,
        v_pins.entered,
        v_pins.leave,
        v_flag,
        v_changed,
        case when v_has_key then format($source$else
            v_state := case when londiste._capture_may_look(%s::pg_catalog.oid) then true end;
        $source$, i_relid) else '' end,
        v_store,
        londiste._capture_call('pgq.insert_event', i_args[1], v_pieces.on_truncate, 6),
        v_states,
        case v_states when '' then 'if' else 'elsif' end,
        v_slow,
        v_pins.restored);
end;
$$;
