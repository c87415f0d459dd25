create or replace function londiste.create_trigger(
    i_queue_name text,
    i_table_name text,
    i_trg_args text[],
    i_dest_table text,
    i_node_type text,
    out ret_code int4,
    out ret_note text,
    out trigger_name text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Creates the triggers of one queue on a table: capture on root and branch, deny on a leaf.
 *
 * i_trg_args -- trigger arguments, and options of this function: tgflags=LETTERS, skip.
 * tgflags -- B before, A after (default); Q sqltriga, L logutriga (default), J jsontriga, or C
 *     native capture; I, U, D operations (default all); S skip.  Of letters that exclude each
 *     other, the last one in this list applies.
 *
 * By default the function creates a trigger whose events every program of Londiste 3 and PgQ can
 * read.  form= and ops= are options of the native capture, and select it.  Only compatible
 * triggers support skipping, BEFORE, ev_type=, ev_data= and ev_extra1=.
 *
 * Takes SHARE ROW EXCLUSIVE on the table: callers set lock_timeout.
 *
 * ret_code -- 200 created, or existed already; 400 unknown letter; 403 AFTER trigger on a table
 *     whose other trigger skips rows; 404 no such table; 405 several skipping triggers, or skip
 *     without a BEFORE trigger.
 */
declare
    v_dest text := londiste.make_fqname(coalesce(i_dest_table, i_table_name));
    v_oid oid;
    v_arg text;
    v_args text[] := '{}';
    v_flags text := '';
    v_skip boolean := false;
    v_before boolean;
    v_kind text;
    v_ops text := '';
    v_others text[];
    v_truncate_name text := londiste.trigger_name(i_queue_name, 'truncate');
    v_function text;
    v_event_table text := londiste.make_fqname(i_table_name);
    v_always text[];
begin
    trigger_name := londiste.trigger_name(i_queue_name);
    v_oid := londiste.find_table_oid(v_dest);
    if v_oid is null then
        select 404, 'Table does not exist: ' || v_dest into ret_code, ret_note;
        return;
    end if;

    foreach v_arg in array coalesce(i_trg_args, '{}') loop
        if v_arg like 'tgflags=%' then
            v_flags := upper(substr(v_arg, 9));
        elsif lower(v_arg) = 'skip' then
            v_skip := true;
        elsif v_arg not in ('expect_sync', 'skip_truncate', 'merge_all', 'no_merge',
                            'virtual_table', 'no_triggers', 'insert_only') then
            v_args := v_args || v_arg;
        end if;
    end loop;
    if v_flags ~ '[^BACQLJIUDS]' then
        select 400, 'Unknown trigger flag: ' || substring(v_flags from '[^BACQLJIUDS]')
            into ret_code, ret_note;
        return;
    end if;

    if i_node_type = 'leaf' then
        trigger_name := londiste.create_capture(i_queue_name, v_dest, array['deny']);
        select 200, 'Triggers created' into ret_code, ret_note;
        return;
    end if;

    v_always := londiste._always_kinds(i_queue_name, v_oid);
    v_skip := v_skip or v_flags like '%S%';
    v_before := v_flags like '%B%' and v_flags not like '%A%';
    v_kind := case when v_flags like '%J%' then 'J'
                   when v_flags like '%L%' then 'L'
                   when v_flags like '%Q%' then 'Q'
                   when v_flags like '%C%' then 'C'
                   when exists (select from unnest(v_args) a where a ~ '^(form|ops)=') then 'C'
                   else 'L' end;
    if v_flags ~ '[IUD]' then
        v_ops := case when v_flags like '%I%' then 'I' else '' end
            || case when v_flags like '%U%' then 'U' else '' end
            || case when v_flags like '%D%' then 'D' else '' end;
    end if;

    select array_agg(t.tgname::text order by t.tgname) into v_others
    from pg_trigger t
    where t.tgrelid = v_oid
        and t.tgconstrindid = 0
        and londiste.is_replica_func(t.tgfoid)
        and t.tgname not in (trigger_name, 'zzz_' || trigger_name)
        and position(E'\\x00'::bytea || 'SKIP'::bytea || E'\\x00'::bytea in t.tgargs) > 0;
    if v_skip and not v_before then
        select 405, 'Skip needs a BEFORE trigger: ' || v_dest into ret_code, ret_note;
        return;
    end if;
    if v_others is not null and not v_before then
        select 403, 'AFTER trigger cannot work with SKIP trigger: ' || v_others[1]
            into ret_code, ret_note;
        return;
    end if;
    if v_skip and v_others is not null then
        if array_length(v_others, 1) > 1 then
            select 405, 'Multiple SKIP triggers: ' || array_to_string(v_others, ', ')
                into ret_code, ret_note;
            return;
        end if;
        -- The trigger that suppresses the row must fire last; Londiste's trigger logs before it.
        if not starts_with(v_others[1], 'zzz_') then
            execute format('alter trigger %I on %s rename to %I',
                v_others[1], londiste.quote_fqname(v_dest), left('zzz_' || v_others[1], 63));
        end if;
    elsif v_skip then
        trigger_name := left('zzz_' || trigger_name, 63);
        v_args := array_append(v_args, 'SKIP');
    end if;

    if exists (select from unnest(v_args) a where a ~ E'^(when|ev_\\w+)=')
        and not exists (select from unnest(v_args) a where starts_with(a, 'search_path='))
    then
        -- The path of an existing trigger stays: its expressions keep their meaning.
        v_args := londiste._with_path(v_args || array(
            select a.arg
            from pg_trigger t
                cross join unnest(londiste._trigger_args(t.tgargs)) a (arg)
            where t.tgrelid = v_oid
                and t.tgname = trigger_name
                and starts_with(a.arg, 'search_path=')));
    end if;
    if v_kind = 'C' then
        perform londiste._drop_trigger_pair(i_queue_name, v_dest);
        if v_ops <> '' then
            v_args := array_append(v_args, 'ops=' || v_ops);
        end if;
        trigger_name := londiste.create_capture(i_queue_name, v_dest, v_args,
            nullif(v_event_table, v_dest));
        perform londiste.fire_always(i_queue_name, v_dest, v_always);
        select 200, 'Triggers created' into ret_code, ret_note;
        return;
    end if;

    v_function := case v_kind when 'J' then 'jsontriga' when 'L' then 'logutriga'
                              else 'sqltriga' end;
    v_args := array[i_queue_name] || v_args;
    -- Rows of a partitioned table fire the partition's clone of the trigger, which would name the
    -- partition; no other node knows it.
    if (v_event_table <> v_dest
            or exists (select from pg_class c where c.oid = v_oid and c.relkind = 'p'))
        and not exists (select from unnest(v_args) a where starts_with(a, 'ev_extra1='))
    then
        v_args := array_append(v_args, 'ev_extra1=' || quote_literal(v_event_table));
    end if;
    if v_ops = '' then
        v_ops := 'IUD';
    end if;
    perform 1
    from pg_trigger t
    where t.tgrelid = v_oid
        and t.tgname = trigger_name
        and t.tgfoid = to_regproc('pgq.' || v_function)
        and t.tgargs = londiste._trigger_args(v_args)
        -- bits: 1 row, 2 before, 4 insert, 8 delete, 16 update
        and t.tgtype = 1 + case when v_before then 2 else 0 end
            + case when v_ops like '%I%' then 4 else 0 end
            + case when v_ops like '%D%' then 8 else 0 end
            + case when v_ops like '%U%' then 16 else 0 end;
    if found then
        select 200, 'Triggers are as they should be' into ret_code, ret_note;
        return;
    end if;

    -- As the trigger function would at the first write.
    perform pgq._trigger_options(format('[0:%s]=%s', cardinality(v_args) - 1, v_args)::text[],
        'INSERT', case when v_before then 'BEFORE' else 'AFTER' end);
    perform londiste._require_arguments(v_oid, v_args[2:]);
    perform londiste.drop_capture(i_queue_name, v_dest);
    perform londiste._drop_trigger_pair(i_queue_name, v_dest);
    execute format('create trigger %I %s %s on %s for each row execute function pgq.%I(%s)',
        trigger_name,
        case when v_before then 'before' else 'after' end,
        concat_ws(' or ',
            case when v_ops like '%I%' then 'insert' end,
            case when v_ops like '%U%' then 'update' end,
            case when v_ops like '%D%' then 'delete' end),
        londiste.quote_fqname(v_dest),
        v_function,
        (select string_agg(quote_literal(a.arg), ', ' order by a.nr)
         from unnest(v_args) with ordinality a (arg, nr)));
    -- A statement trigger cannot rename the table of its event.  Where the names differ,
    -- TRUNCATE is refused, because its event would truncate another table on other nodes.
    execute format('create trigger %I after truncate on %s for each statement'
            || ' execute function pgq.sqltriga(%L%s)',
        v_truncate_name, londiste.quote_fqname(v_dest), i_queue_name,
        case when v_event_table <> v_dest then ', ''deny''' else '' end);
    perform londiste.fire_always(i_queue_name, v_dest, v_always);
    select 200, 'Triggers created' into ret_code, ret_note;
end;
$$;
