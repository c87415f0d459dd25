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
 * The body of the function that captures a table by whole statements; i_args are the trigger's
 * arguments, i_direct says that it may write into the event tables itself.
 *
 * The first eight rows of a statement become events of their own, the others go into packed ones.
 * The same function is the row trigger that fires when an UPDATE has changed a key.  Static SQL,
 * and everything qualified, as in _capture_row_body(): variables too where columns of the table are
 * visible, for a column may have the name of a variable.
 */
declare
    v_pieces record := londiste._capture_pieces(i_relid, i_args, 'n', 'o');
    v_rows record := londiste._capture_pieces(i_relid, i_args, 'new', 'old');
    v_queue pgq.queue;
    v_settings text[] := londiste._capture_settings(i_relid, i_args);
    v_pins record := londiste._capture_pins(v_settings);
    v_flag text := quote_literal('londiste.resolve_' || i_relid);
    v_raise text := format(E'perform pg_catalog.set_config(%s, ''1'', true);', v_flag);
    v_changed text := format('londiste._capture_signature(%1$L::pg_catalog.regclass)'
        || ' operator(pg_catalog.<>) %2$L or pg_catalog.has_column_privilege('
        || '%1$L::pg_catalog.regclass::pg_catalog.oid, %3$s::pg_catalog.int2, ''select'') is not null',
        i_relid, londiste._capture_signature(i_relid),
        (select c.relnatts + 1 from pg_class as c where c.oid = i_relid));
    v_guard text := 'perform londiste._capture_needs_key(tg_op, tg_argv[0:]) where exists (select from %s);';
    v_has_key bool := v_pieces.on_update is not null;
    v_store text := '';
    v_state text := '';
    v_from text;
    v_event text;
    v_lines text;
    v_op text;
    v_nr int4;
begin
    select * into v_queue from pgq.queue where queue_name = i_args[1];
    foreach v_op in array '{UPDATE,INSERT,DELETE}'::text[] loop
        v_from := case v_op when 'DELETE' then 'old_rows as o' else 'new_rows as n' end;
        v_event := case v_op
            when 'INSERT' then v_pieces.on_insert
            when 'UPDATE' then v_pieces.on_update
            else v_pieces.on_gone
        end;
        v_store := v_store || format(E'%s tg_op operator(pg_catalog.=) %L then\n        ',
            case v_op when 'UPDATE' then 'if' else '    elsif' end, v_op);
        if v_event is null then
            v_store := v_store || format(v_guard, v_from) || E'\n';
            continue;
        end if;
        v_state := v_state || format(E'%s tg_op operator(pg_catalog.=) %L then\n                %s\n',
            case v_op when 'UPDATE' then 'if' else '            elsif' end, v_op,
            londiste._capture_call('londiste._log_state', i_args[1],
                format('select e.* from %s cross join lateral (%s) as e', v_from,
                    case v_op when 'DELETE' then v_pieces.state_of_old
                        else v_pieces.state_of_new end), 8));
        if v_op = 'DELETE' and not londiste._capture_deferrable(i_relid, v_pieces.key_columns) then
            -- Another part of the same query may have inserted the key again, and have been told
            -- before, or be told next: then as a state too, for the row is there by then.
            v_store := v_store || format(E'if exists (select from old_rows as o join %s as t on %s)'
                    || E' and londiste._capture_may_look(%s)\n        then\n            %s\n            %s\n            %s\n        els',
                londiste._capture_from(i_relid),
                londiste._capture_same(i_relid, v_pieces.key_columns, 't', 'o'),
                i_relid,
                v_raise,
                londiste._capture_call('londiste._log_state', i_args[1],
                    format('select e.* from %s cross join lateral (%s) as e', v_from,
                        v_pieces.state_of_old), 8),
                v_pins.leave);
        end if;
        v_lines := format('select %s, %s from %s%s offset 8',
            case v_op when 'DELETE' then v_pieces.gone else v_pieces.line end,
            case when v_op = 'DELETE' then v_pieces.gone_key
                when v_has_key then v_pieces.line_key
                else 'null::pg_catalog.text' end,
            v_from,
            coalesce(' cross join lateral ' || nullif(
                case v_op when 'DELETE' then v_pieces.gone_source else v_pieces.line_source end,
                ''), ''));
        for v_nr in 0 .. v_queue.queue_ntables - 1 loop
            continue when not i_direct;
            v_store := v_store || format('%1$s v_table operator(pg_catalog.=) %2$L then
            insert into %3$s (ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data, ev_extra1,
                ev_extra2, ev_extra3, ev_extra4)
            select pg_catalog.nextval(%4$L::pg_catalog.regclass), pg_catalog.now(), capture.v_txid,
                null::pg_catalog.int4, null::pg_catalog.int4, e.*
            from %5$s cross join lateral (%6$s) as e
            limit coalesce((select case when q.queue_packed_events then 8
                else 9223372036854775807 end from pgq.queue as q where %10$s), 0);
            get diagnostics v_done = row_count;
            if v_done operator(pg_catalog.=) 8 then
                open v_lines no scroll for %7$s;
                insert into %3$s (ev_id, ev_time, ev_txid, ev_type, ev_data, ev_extra1, ev_extra3)
                select pg_catalog.nextval(%4$L::pg_catalog.regclass), pg_catalog.now(), v_txid,
                    %8$L, p.data, %9$L, p.keys
                from londiste._pack_lines(v_lines) as p;
                close v_lines;
            end if;
        ',
                case v_nr when 0 then 'if' else 'elsif' end,
                v_nr,
                pgq.quote_fqname(v_queue.queue_data_pfx || '_' || v_nr),
                pgq.quote_fqname(v_queue.queue_event_seq),
                v_from,
                v_event,
                v_lines,
                v_pieces.pack_types[array_position('{INSERT,UPDATE,DELETE}'::text[], v_op)],
                i_args[2],
                londiste._capture_table_is(v_queue.queue_id, v_nr));
        end loop;
        v_event := londiste._capture_call('pgq.insert_event', i_args[1],
            format('select e.* from %s cross join lateral (%s) as e', v_from, v_event), 6);
        v_store := v_store || case when i_direct and v_queue.queue_ntables > 0
            then format(E'elsif v_looked then\n            %s\n        end if;\n', v_event)
            when v_op = 'DELETE' and not londiste._capture_deferrable(i_relid, v_pieces.key_columns)
            then format(E'e\n            %s\n        end if;\n', v_event)
            else v_event || E'\n' end;
    end loop;

    return format($source$
#variable_conflict use_column
/* Made by londiste.create_capture(); to be changed by it or by londiste.refresh_capture().
   Form: statement.  Pinned: %1$s */
<<capture>>
declare
    -- Rows that have changed gave the transaction its id; without one there are none.  The id comes
    -- before the look at the current table, as in pgq.insert_event().
    v_txid pg_catalog.int8 := pg_catalog.txid_current_if_assigned();
    -- The table that this session used last: a guess, which the INSERT checks.
    v_table pg_catalog.text := pg_catalog.current_setting('pgq.table_of_%8$s', true);
    v_done pg_catalog.int8 := 0;
    v_looked pg_catalog.bool := %15$s;
    v_lines pg_catalog.refcursor;
%11$sbegin
%12$s    if v_txid is null then
        %13$s
    elsif pg_catalog.current_setting('session_replication_role') operator(pg_catalog.=) 'local'
        or pg_catalog.pg_trigger_depth() operator(pg_catalog.>) 1
        or pg_catalog.current_setting(%2$s, true) operator(pg_catalog.=) '1'
        or %3$s%4$s
    then
        if pg_catalog.current_setting('session_replication_role') operator(pg_catalog.=) 'local' then
            %13$s
        elsif tg_op operator(pg_catalog.=) 'TRUNCATE' then
            null;
        elsif %3$s then
            if tg_level operator(pg_catalog.=) 'ROW' then
                perform londiste._capture_changed_row(%5$s, tg_argv[0:], 'KEY', new, old);
            else
                execute londiste._capture_changed_statement(%5$s, tg_argv[0:], tg_op);
            end if;
            %13$s
        %6$send if;
    end if;
    %7$sloop
    %9$s    else
        %10$s
        exit;
    end if;
    exit when v_done operator(pg_catalog.>) 0 or v_looked;
    v_looked := true;
    select q.queue_cur_table::pg_catalog.text into v_table
    from pgq.queue as q
    where q.queue_id operator(pg_catalog.=) %8$s
        and not q.queue_disable_insert
        and q.queue_per_tx_limit is null;
    perform pg_catalog.set_config('pgq.table_of_%8$s', coalesce(v_table, ''), false);
    end loop;
%14$s    return null;
end;
$source$,
        coalesce(
            nullif(array_to_string(v_settings, ', '), ''), 'nothing'),
        v_flag,
        v_changed,
        case when londiste._capture_always_state(i_relid, v_pieces.key_columns)
            then E'\n        or true' else '' end,
        i_relid,
        case when not v_has_key then '' else format($source$elsif londiste._capture_may_look(%1$s) then
            if tg_level operator(pg_catalog.=) 'ROW' then
                %2$s
                found := true;
            els%3$s            end if;
            if found then
                %4$s
            end if;
            %5$s
        $source$,
            i_relid, londiste._capture_call('londiste._log_state', i_args[1], v_rows.state_of_old, 8),
            v_state, v_raise, v_pins.leave) end,
        case when not v_has_key then '' else format($source$if tg_level operator(pg_catalog.=) 'ROW' then
        if londiste._capture_may_look(%1$s) then
            %2$s
            %3$s
        else
            %4$s
            %5$s
        end if;
        %6$s
    end if;
    $source$,
            i_relid, v_raise,
            londiste._capture_call('londiste._log_state', i_args[1], v_rows.state_of_old, 8),
            londiste._capture_call('pgq.insert_event', i_args[1], v_rows.on_delete, 6),
            londiste._capture_call('pgq.insert_event', i_args[1], v_rows.on_insert, 6),
            v_pins.leave) end,
        coalesce(v_queue.queue_id, 0),
        v_store,
        londiste._capture_call('pgq.insert_event', i_args[1], v_pieces.on_truncate, 6),
        v_pins.declared, v_pins.entered, v_pins.leave, v_pins.restored,
        case when i_direct then 'false' else 'true' end);
end;
$$;
