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
    v_options record := londiste._capture_options(i_args[3:]);
    v_queue pgq.queue;
    v_settings text[] := londiste._capture_settings(i_relid, i_args);
    v_pins record := londiste._capture_pins(v_settings);
    v_flag text := quote_literal('londiste.resolve_' || i_relid);
    v_guard text := 'perform londiste._capture_needs_key(tg_op, tg_argv[0:]);';
    v_changed text := londiste._capture_changed(i_relid, i_args, false);
    v_silent text := '';
    v_states text := '';
    v_look text := '';
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
        v_look := format('else
            v_state := londiste._capture_may_look(%s::pg_catalog.oid);
        ', i_relid);
        v_silent := case when v_pieces.update_silent is null then '' else format($source$
    if tg_op operator(pg_catalog.=) 'UPDATE' then
        if %s then
            %s
        end if;
    end if;$source$, v_pieces.update_silent, v_pins.leave) end;
        -- The columns are named for an UPDATE alone: a TRUNCATE has no row, and may come after they are gone.
        v_states := format($source$
    if tg_op operator(pg_catalog.=) 'UPDATE' then
        v_rekeyed := %1$s;
    end if;
    if v_state or v_rekeyed then
        if coalesce(v_state, londiste._capture_may_look(%2$s::pg_catalog.oid)) then
            perform pg_catalog.set_config(%3$s, '1', true);
            if v_rekeyed or tg_op operator(pg_catalog.=) 'DELETE' then
                %4$s
            end if;
            if tg_op operator(pg_catalog.<>) 'DELETE' then
                %5$s
            end if;
        else
            %6$s
            %7$s
        end if;
        %8$s
    end if;$source$,
            v_pieces.key_changed,
            i_relid,
            v_flag,
            londiste._capture_call('londiste._log_state', i_args[1], v_pieces.state_of_old, 8),
            londiste._capture_call('londiste._log_state', i_args[1], v_pieces.state_of_new, 8),
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
            v_store := v_store || format('%s v_way operator(pg_catalog.=) %s or v_way operator(pg_catalog.=) %s then
            insert into %s (ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data, ev_extra1,
                ev_extra2, ev_extra3, ev_extra4)
            select pg_catalog.nextval(%L), pg_catalog.now(), capture.v_txid, null, null, %s;
        ',
                v_place,
                2 * v_nr,
                2 * v_nr + 1,
                pgq.quote_fqname(v_queue.queue_data_pfx || '_' || v_nr),
                pgq.quote_fqname(v_queue.queue_event_seq),
                substr(v_event, length('select ') + 1));
            v_place := 'elsif';
        end loop;
        v_store := v_store || format(case v_place when 'elsif' then E'else\n            %s\n        end if;\n'
                else E'%s\n' end,
            londiste._capture_call('pgq.insert_event', i_args[1], v_event, 6));
    end loop;

    return format($source$
#variable_conflict use_column
/* Made by londiste.create_capture(); to be changed by it or by londiste.refresh_capture().
   Form: row.  Pinned: %1$s */
<<capture>>
declare
    -- The id of the transaction comes before the look at the current table, as in
    -- pgq.insert_event().
    v_txid pg_catalog.int8 := pg_catalog.txid_current();
    v_way pg_catalog.int8 := %2$s;
    v_state pg_catalog.bool;
    v_rekeyed pg_catalog.bool;
    v_now pg_catalog.text;
    v_relid pg_catalog.oid := %10$s;
%3$sbegin
%4$s%5$s    if pg_catalog.current_setting('session_replication_role') operator(pg_catalog.=) 'local'
        or pg_catalog.pg_trigger_depth() operator(pg_catalog.>) 1
        or pg_catalog.current_setting(%6$s, true) operator(pg_catalog.=) '1'
        or %7$s%8$s
    then
        if pg_catalog.current_setting('session_replication_role') operator(pg_catalog.=) 'local' then
            %9$s
        elsif tg_op operator(pg_catalog.=) 'TRUNCATE' then
            null;
        elsif %7$s then
            if tg_relid operator(pg_catalog.<>) %10$s then
                v_relid := londiste._captured_table(tg_relid, tg_name);
            end if;
            if v_relid operator(pg_catalog.=) %10$s then
                v_now := londiste._capture_now(%10$L::pg_catalog.regclass::pg_catalog.oid, %11$L::pg_catalog.text[],
                    '($1)'::pg_catalog.text, '($2)'::pg_catalog.text);
            else
                -- From a dump, where the table had another number.
                v_now := londiste._capture_now(v_relid, %11$L::pg_catalog.text[], '($1)'::pg_catalog.text, '($2)'::pg_catalog.text);
            end if;
            perform londiste._capture_changed_row(v_relid, tg_argv[0:], v_now, tg_op, new, old);
%18$s            %9$s
        %12$send if;
    end if;%13$s%14$s
    %15$s    else
        %16$s
    end if;
%17$s    return null;
end;
$source$,
        coalesce(
            nullif(array_to_string(v_settings, ', '), ''), 'nothing'),
        case when i_direct
            then londiste._capture_way(i_args[1])
            else 'null' end,
        v_pins.declared,
        v_pins.entered,
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
$source$, i_relid, v_pins.leave) else '' end,
        v_flag,
        v_changed,
        case when v_late then E'\n        or true' else '' end,
        v_pins.leave,
        i_relid,
        i_args,
        v_look,
        v_silent,
        v_states,
        v_store,
        londiste._capture_call('pgq.insert_event', i_args[1], v_pieces.on_truncate, 6),
        v_pins.restored,
        -- With the rights of a writer nothing can be recreated.
        case when v_options.condition is null and num_nonnulls(variadic v_options.extras) = 0
            then E'            perform londiste._renew_stale(v_relid, tg_name);\n' else '' end);
end;
$$;
