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
    v_changed text := format('londiste._capture_signature(%1$L::pg_catalog.regclass::pg_catalog.oid)'
        || ' operator(pg_catalog.<>) %2$L or pg_catalog.has_column_privilege('
        || '%1$L::pg_catalog.regclass::pg_catalog.oid, %3$s::pg_catalog.int2, ''select'') is not null',
        i_relid, londiste._capture_signature(i_relid),
        (select c.relnatts + 1 from pg_class as c where c.oid = i_relid));
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
            perform londiste._unpin_settings(v_pinned);$source$, i_relid, i_args);
    v_head text;
    v_from text;
    v_event text;
    v_lines text;
    v_pack text;
    v_plain text;
    v_packs text;
    v_op text;
    v_nr int4;
begin
    select * into v_queue from pgq.queue where queue_name = i_args[1];
    if i_direct then
        v_tables := array(
            select pgq.quote_fqname(v_queue.queue_data_pfx || '_' || n.nr)
            from generate_series(0, v_queue.queue_ntables - 1) as n (nr)
            order by n.nr);
        v_head := format('pg_catalog.nextval(%L::pg_catalog.regclass), pg_catalog.now(),',
            pgq.quote_fqname(v_queue.queue_event_seq));
    end if;
    if v_has_key then
        v_old_keys := format('open v_keys no scroll for select null::pg_catalog.text, %s from old_rows as o',
            v_pieces.gone_key);
        v_new_keys := format('open v_lines no scroll for select null::pg_catalog.text, %s from new_rows as n',
            v_pieces.line_key);
        v_states := format($source$
            select pg_catalog.count(*), %1$s into v_rows, v_same
            from (select from new_rows as n limit 9) as r;
            if v_rows operator(pg_catalog.>) 0 then
                %2$s
                if v_rows operator(pg_catalog.>) 8 then
                    -- Planned for as many rows as there are now.
                    execute %3$L;
                elsif not v_same then
                    %4$s
                end if;
                %5$s
            end if;$source$,
            v_same,
            v_raise,
            format('select pg_catalog.count(londiste._log_state(%L::pg_catalog.text, e.a, e.b, e.c, e.d, e.e, e.f, e.g, e.h))'
                    || ' from old_rows as o cross join lateral (%s) as e (a, b, c, d, e, f, g, h)'
                    || ' where not exists (select from new_rows as n where %s operator(pg_catalog.=) %s)',
                i_args[1], v_pieces.state_of_old, v_pieces.line_key, v_pieces.gone_key),
            londiste._capture_call('londiste._log_state', i_args[1], v_state_of_old, 8),
            londiste._capture_call('londiste._log_state', i_args[1], v_state_of_new, 8));
        if not v_deferrable then
            -- Another part of the same query may have inserted the key again, and its event may come first.
            -- Then a state is logged, because the row exists by now.  If the other event comes after it, the
            -- order is right.  Without an INSERT in this transaction the check is not needed.
            v_look := format($source$
        if (pg_catalog.pg_stat_get_xact_tuples_inserted(%1$s) operator(pg_catalog.<>) 0
                or pg_catalog.current_setting('track_counts') operator(pg_catalog.<>) 'on')
            and londiste._capture_may_look(%1$s::pg_catalog.oid)
        then
            if exists (select from old_rows as o cross join lateral (
                    select from %2$s as t where %3$s limit 1) as t)
            then
                %4$s
                %5$s
                %6$s
            end if;
        end if;$source$,
                i_relid,
                londiste._capture_from(i_relid),
                londiste._capture_same(i_relid, v_pieces.key_columns, 't', 'o'),
                v_raise,
                londiste._capture_call('londiste._log_state', i_args[1], v_state_of_old, 8),
                v_pins.leave);
        end if;
    end if;

    foreach v_op in array '{UPDATE,INSERT,DELETE}'::text[] loop
        v_from := case v_op when 'DELETE' then 'old_rows as o' else 'new_rows as n' end;
        v_event := case v_op
            when 'INSERT' then v_pieces.on_insert
            when 'UPDATE' then v_pieces.on_update
            else v_pieces.on_gone
        end;
        v_store := v_store || format(E'%s tg_op operator(pg_catalog.=) %L then',
            case v_op when 'UPDATE' then 'if' else E'\n    elsif' end, v_op);
        if v_event is null then
            v_store := v_store || format(E'\n        perform londiste._capture_needs_key(tg_op, tg_argv[0:])'
                || ' where exists (select from %s);', v_from);
            continue;
        end if;
        v_event := format('from %s cross join lateral (%s) as e', v_from, v_event);
        v_lines := format('open v_lines no scroll for select %s, %s from %s%s offset 8',
            case v_op when 'DELETE' then v_pieces.gone else v_pieces.line end,
            case when v_op = 'DELETE' then v_pieces.gone_key
                when v_has_key then v_pieces.line_key
                else 'null::pg_catalog.text' end,
            v_from,
            coalesce(' cross join lateral ' || nullif(
                case v_op when 'DELETE' then v_pieces.gone_source else v_pieces.line_source end,
                ''), ''));
        v_pack := format('%s capture.v_txid, null::pg_catalog.int4, null::pg_catalog.int4,'
                || ' %L::pg_catalog.text, p.data, %L::pg_catalog.text, null::pg_catalog.text, p.keys,'
                || ' null::pg_catalog.text from londiste.%s as p;',
            v_head,
            v_pieces.pack_types[array_position('{INSERT,UPDATE,DELETE}'::text[], v_op)],
            i_args[2],
            case v_op when 'UPDATE' then '_pack_updates(v_lines, v_keys, ' || v_flag || '::pg_catalog.text' else '_pack_lines(v_lines' end || ')');
        v_plain := '';
        v_packs := '';
        for v_nr in 1 .. cardinality(v_tables) loop
            -- All columns in their order: otherwise the plan has a level more.
            v_plain := v_plain || format('%s v_way operator(pg_catalog.>>) 1 operator(pg_catalog.=) %s then
            insert into %s %s
            select %s capture.v_txid, null::pg_catalog.int4, null::pg_catalog.int4, e.*
            %s%s
            limit 8;
            get diagnostics v_done = row_count;
            if v_done operator(pg_catalog.<) 8%s then
                %s
            end if;
        ',
                case v_nr when 1 then 'if' else 'elsif' end, v_nr - 1,
                v_tables[v_nr], v_columns, v_head,
                v_event,
                case v_op when 'UPDATE' then ' where ' || v_same else '' end,
                case v_op when 'UPDATE' then ' and v_done operator(pg_catalog.<>) 0' else '' end,
                v_pins.leave);
            v_packs := v_packs || format('
            %s v_way operator(pg_catalog.>>) 1 operator(pg_catalog.=) %s then
                insert into %s %s
                select %s',
                case v_nr when 1 then 'if' else 'elsif' end, v_nr - 1,
                v_tables[v_nr], v_columns, v_pack);
        end loop;
        v_store := v_store || case v_op when 'DELETE' then v_look else '' end;
        if v_plain <> '' then
            v_store := v_store || format(E'\n        %send if;\n        if v_done operator(pg_catalog.=) 8'
                || E' and v_way operator(pg_catalog.&) 1 operator(pg_catalog.=) 1 then\n            %s;%s%s\n'
                || E'            end if;\n            close v_lines;%s\n        els',
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
                    execute pg_catalog.concat(''insert into '', (%L::pg_catalog.text[])[
                        (v_way operator(pg_catalog.>>) 1) operator(pg_catalog.+) 1], %L) using v_txid;
                    %s
                end if;',
                v_tables,
                format(' %s select %s $1, null::pg_catalog.int4, null::pg_catalog.int4, e.* %s offset 8',
                    v_columns, v_head, v_event),
                v_pins.leave) end
            || E'\n                ' || londiste._capture_call('pgq.insert_event', i_args[1],
                'select e.* ' || v_event, 6);
        if v_op <> 'UPDATE' then
            v_store := v_store || format(case when v_tables = '{}' then '%s' else E'e%s\n        end if;' end,
                v_plain);
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
        if not londiste._capture_may_look(%5$s::pg_catalog.oid) then
            %7$s
        else%6$s
        end if;$source$,
            v_new_keys, v_old_keys, v_plain, v_pins.leave, i_relid, v_states, v_slow);
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
    v_lines pg_catalog.refcursor;
    v_keys pg_catalog.refcursor;
    v_pinned pg_catalog.text[];
%3$sbegin
%4$s    if v_txid is null then
        %5$s
    elsif pg_catalog.current_setting('session_replication_role') operator(pg_catalog.=) 'local'
        or pg_catalog.pg_trigger_depth() operator(pg_catalog.>) 1
        or pg_catalog.current_setting(%6$s, true) operator(pg_catalog.=) '1'
        or %7$s
    then
        if pg_catalog.current_setting('session_replication_role') operator(pg_catalog.=) 'local' then
            %5$s
        elsif tg_op operator(pg_catalog.=) 'TRUNCATE' then
            null;
        elsif %7$s then
            %8$s
            %5$s
        %9$send if;
    end if;
    %10$s
    else
        %11$s
    end if;
%12$s    return null;
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
        v_slow,
        case when not v_has_key then '' else format($source$elsif londiste._capture_may_look(%1$s::pg_catalog.oid) then
            if tg_op operator(pg_catalog.=) 'UPDATE' then%2$s
            else
                if tg_op operator(pg_catalog.=) 'INSERT' then
                    %3$s
                else
                    %4$s
                end if;
                if found then
                    %5$s
                end if;
            end if;
            %6$s
        $source$,
            i_relid,
            v_states,
            londiste._capture_call('londiste._log_state', i_args[1], v_state_of_new, 8),
            londiste._capture_call('londiste._log_state', i_args[1], v_state_of_old, 8),
            v_raise,
            v_pins.leave) end,
        v_store,
        londiste._capture_call('pgq.insert_event', i_args[1], v_pieces.on_truncate, 6),
        v_pins.restored);
end;
$$;
