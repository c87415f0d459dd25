create or replace function londiste._capture_row_body(i_relid oid, i_args text[], i_direct bool)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the body of the function that captures a table row by row.
 *
 * i_args -- the trigger's arguments.
 * i_direct -- true: the function may write into the event tables directly.
 *
 * A pure function of the catalog.  So a comparison of its result with the body in the database shows
 * whether the table has changed.  The body contains static SQL for the current columns.
 * Everything in it is qualified, operators too: it may run under any search_path.
 */
declare
    v_pieces record := londiste._capture_pieces(i_relid, i_args, 'new', 'old');
    v_queue pgq.queue;
    v_settings text[] := londiste._capture_settings(i_relid, i_args);
    v_pins record := londiste._capture_pins(v_settings);
    v_flag text := quote_literal('londiste.resolve_' || i_relid);
    v_state_of_old text := londiste._capture_call('londiste._log_state', i_args[1], v_pieces.state_of_old, 8);
    v_state_of_new text := londiste._capture_call('londiste._log_state', i_args[1], v_pieces.state_of_new, 8);
    v_guard text := 'perform londiste._capture_needs_key(tg_op, tg_argv[0:]);';
    v_update text := '';
    v_store text := '';
    v_late bool := londiste._capture_always_state(i_relid, v_pieces.key_columns);
    v_op text;
    v_event text;
    v_place text;
    v_nr int4;
begin
    select * into v_queue from pgq.queue where queue_name = i_args[1];
    if v_pieces.on_update is not null then
        v_guard := '';
        v_update := format($source$
    if tg_op operator(pg_catalog.=) 'UPDATE' then
        %1$sif (%2$s) then
            if londiste._capture_may_look(%3$s::pg_catalog.oid) then
                perform pg_catalog.set_config(%4$s, '1', true);
                %5$s
                %6$s
            else
                %7$s
                %8$s
            end if;
            %9$s
        end if;
    end if;$source$,
            coalesce('if (' || v_pieces.update_silent
                || E') then\n            ' || v_pins.leave || E'\n        end if;\n        ', ''),
            v_pieces.key_changed,
            i_relid,
            v_flag,
            v_state_of_old,
            v_state_of_new,
            londiste._capture_call('pgq.insert_event', i_args[1], v_pieces.on_delete, 6),
            londiste._capture_call('pgq.insert_event', i_args[1], v_pieces.on_insert, 6),
            v_pins.leave);
    end if;

    foreach v_op in array '{UPDATE,INSERT,DELETE}'::text[] loop
        v_event := case v_op
            when 'INSERT' then v_pieces.on_insert
            when 'UPDATE' then v_pieces.on_update
            else v_pieces.on_delete
        end;
        if v_op = 'UPDATE' and v_event is null and v_pieces.on_delete is not null then
            -- Without a key: one row like the old one is deleted, the new one is inserted.
            v_event := format('select u.* from (%s union all %s) as u (a, b, c, d, e, f)'
                    || ' where old operator(pg_catalog.*<>) new',
                v_pieces.on_delete, v_pieces.on_insert);
        end if;
        v_store := v_store || format(E'%s tg_op operator(pg_catalog.=) %L then\n        ',
            case v_op when 'UPDATE' then 'if' else '    elsif' end, v_op);
        if v_event is null then
            v_store := v_store || v_guard || E'\n';
            continue;
        end if;
        v_place := 'if';
        for v_nr in 0 .. v_queue.queue_ntables - 1 loop
            continue when not i_direct;
            -- All columns in their order: otherwise the plan has a level more.
            v_store := v_store || format('%s v_table operator(pg_catalog.=) %s then
            insert into %s (ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data, ev_extra1,
                ev_extra2, ev_extra3, ev_extra4)
            select pg_catalog.nextval(%L::pg_catalog.regclass), pg_catalog.now(), capture.v_txid,
                null::pg_catalog.int4, null::pg_catalog.int4, e.*
            from (%s) as e;
        ',
                v_place,
                v_nr,
                pgq.quote_fqname(v_queue.queue_data_pfx || '_' || v_nr),
                pgq.quote_fqname(v_queue.queue_event_seq),
                v_event);
            v_place := 'elsif';
        end loop;
        v_store := v_store || format(case v_place when 'elsif' then E'else\n            %s\n        end if;\n'
                else E'%s\n' end,
            londiste._capture_call('pgq.insert_event', i_args[1], v_event, 6));
    end loop;

    return format($source$
#variable_conflict use_column
/* Made by londiste.create_capture(); to be changed by it or by londiste.refresh_capture().
   Form: row.  Pinned: %10$s */
<<capture>>
declare
    -- The id of the transaction comes before the look at the current table, as in
    -- pgq.insert_event().
    v_txid pg_catalog.int8 := pg_catalog.txid_current();
    v_table pg_catalog.int8 := %7$s;
    v_now pg_catalog.text;
    v_relid pg_catalog.oid := %2$s;
%12$sbegin
%13$s%17$s    if pg_catalog.current_setting('session_replication_role') operator(pg_catalog.=) 'local'
        or pg_catalog.pg_trigger_depth() operator(pg_catalog.>) 1
        or pg_catalog.current_setting(%1$s, true) operator(pg_catalog.=) '1'
        or londiste._capture_signature(%2$L::pg_catalog.regclass::pg_catalog.oid) operator(pg_catalog.<>) %3$L
        or pg_catalog.has_column_privilege(%2$L::pg_catalog.regclass::pg_catalog.oid,
            %4$s::pg_catalog.int2, 'select') is not null%11$s
    then
        if pg_catalog.current_setting('session_replication_role') operator(pg_catalog.=) 'local' then
            %14$s
        elsif tg_op operator(pg_catalog.=) 'TRUNCATE' then
            null;
        elsif londiste._capture_signature(%2$L::pg_catalog.regclass::pg_catalog.oid) operator(pg_catalog.<>) %3$L
            or pg_catalog.has_column_privilege(%2$L::pg_catalog.regclass::pg_catalog.oid,
                %4$s::pg_catalog.int2, 'select') is not null
        then
            if tg_relid operator(pg_catalog.<>) %2$s then
                v_relid := londiste._captured_table(tg_relid, tg_name);
            end if;
            if v_relid operator(pg_catalog.=) %2$s then
                v_now := londiste._capture_now(%2$L::pg_catalog.regclass::pg_catalog.oid, %16$L::pg_catalog.text[],
                    '($1)'::pg_catalog.text, '($2)'::pg_catalog.text);
            else
                -- From a dump, where the table had another number.
                v_now := londiste._capture_now(v_relid, %16$L::pg_catalog.text[], '($1)'::pg_catalog.text, '($2)'::pg_catalog.text);
            end if;
            perform londiste._capture_changed_row(v_relid, tg_argv[0:], v_now, tg_op, new, old);
            %14$s
        %5$send if;
    end if;
%6$s
    %8$s    else
        %9$s
    end if;
%15$s    return null;
end;
$source$,
        v_flag,
        i_relid,
        londiste._capture_signature(i_relid),
        (select c.relnatts + 1 from pg_class as c where c.oid = i_relid),
        case when v_pieces.on_update is null then '' else format($source$elsif londiste._capture_may_look(%1$s::pg_catalog.oid) then
            perform pg_catalog.set_config(%2$s, '1', true);
            if tg_op operator(pg_catalog.=) 'INSERT' then
                %3$s
            elsif tg_op operator(pg_catalog.=) 'DELETE' then
                %4$s
            elsif (%5$s) then
                %4$s
                %3$s
            elsif not (%6$s) then
                %3$s
            end if;
            %7$s
        $source$,
            i_relid, v_flag, v_state_of_new, v_state_of_old, v_pieces.key_changed,
            coalesce(v_pieces.update_silent, 'false'), v_pins.leave) end,
        v_update,
        case when i_direct
            then '(' || londiste._capture_way(i_args[1]) || ') operator(pg_catalog.>>) 1'
            else 'null' end,
        v_store,
        londiste._capture_call('pgq.insert_event', i_args[1], v_pieces.on_truncate, 6),
        coalesce(
            nullif(array_to_string(v_settings, ', '), ''), 'nothing'),
        case when v_late then E'\n        or true' else '' end,
        v_pins.declared, v_pins.entered, v_pins.leave, v_pins.restored, i_args,
        case when v_late then format($source$    if tg_name operator(pg_catalog.=) %L::pg_catalog.name then
        -- Behind the check of the key, before the commit: what the table has is told again, and never as a change.
        if not londiste._capture_may_look(%s::pg_catalog.oid) then
            %s
        end if;
        perform pg_catalog.set_config(%s, '1', true);
    end if;
$source$,
            londiste.trigger_name(i_args[1], 'commit'), i_relid, v_pins.leave, v_flag) else '' end
        || case when (select c.relkind = 'p' from pg_class as c where c.oid = i_relid)
            then format($source$    if tg_op operator(pg_catalog.=) 'TRUNCATE'
        and londiste._capture_emptied(tg_relid, %s::pg_catalog.oid, tg_when, tg_argv[0:])
    then
        %s
    end if;
$source$, i_relid, v_pins.leave) else '' end);
end;
$$;
