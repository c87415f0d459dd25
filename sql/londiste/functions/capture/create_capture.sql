create or replace function londiste.create_capture(
    i_queue_name text,
    i_table_name text,
    i_options text[] default '{}',
    i_event_table text default null)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
/*
 * Creates the native capture of a table into a queue.  Returns the name of its (first) trigger.
 *
 * i_table_name -- name of the table in this database.
 * i_options -- pkey=a,b  ignore=a,b  when=EXPR  ev_extra2=EXPR (to ev_extra4)  backup  ops=IUD (a
 *     subset)  form=auto (or row, statement)  search_path=a,b (for expressions)  deny.  With deny
 *     the table refuses writes instead.
 * i_event_table -- name of the table in its events; null (default): the name in this database.
 *
 * The function replaces an existing capture with the same names.  If its triggers also fire for
 * replicated rows (fire_always), so do the new ones.  The caller must own the table and have the right to
 * create functions in schema londiste_capture.  The table needs a column (LD100), because
 * subscribers could not apply rows without values.  A warning names columns of pkey= that may be NULL:
 * the capture refuses changes of a row with such a key.
 */
declare
    v_event_table text := londiste._full_name(coalesce(i_event_table, i_table_name));
    v_relid oid := londiste._capture_relation(i_table_name);
    v_options record := londiste._capture_options(i_options);
    v_args text[] := array[i_queue_name, v_event_table] || londiste._with_path(i_options);
    v_arguments text;
    v_function text;
    v_columns text[];
    v_missing text;
    v_nullable text[];
    v_trigger record;
    v_is_new bool;
    v_always text[];
begin
    if v_relid is null then
        raise exception using
            errcode = 'LD004',
            message = format('Table does not exist: %s', londiste._full_name(i_table_name)),
            hint = 'write it as schema.table, without quotes; views and foreign tables cannot be captured';
    end if;
    if v_options.deny then
        perform londiste.drop_capture(i_queue_name, i_table_name);
        execute format('create trigger %I after insert or update or delete on %s'
            || ' for each row execute function pgq.logutriga(%L, ''deny'')',
            londiste.trigger_name(i_queue_name), v_relid::regclass, i_queue_name);
        execute format('create trigger %I after truncate on %s'
            || ' for each statement execute function pgq.sqltriga(%L, ''deny'')',
            londiste.trigger_name(i_queue_name, 'truncate'), v_relid::regclass, i_queue_name);
        perform londiste._capture_partitions(v_relid, 'pgq.sqltriga', array[i_queue_name, 'deny'], true);
        return londiste.trigger_name(i_queue_name);
    end if;
    if not exists (select from pgq.queue as q where q.queue_name = i_queue_name) then
        perform pgq._raise_no_queue('No such queue', i_queue_name);
    end if;
    v_columns := array(select c.name from pgq._row_columns(v_relid) as c);
    if v_columns = '{}' then
        raise exception using
            errcode = 'LD100',
            message = format('Table has no columns: %s', londiste._full_name(i_table_name)),
            detail = 'subscribers cannot apply rows without values',
            hint = 'add a column first';
    end if;
    select n.name into v_missing
    from unnest(pgq._column_list(v_options.key_columns, v_columns)) as n (name)
    where n.name <> all (v_columns);
    if found then
        raise exception using
            errcode = 'LD005',
            message = format('pkey= names %s, which is no column of %s', quote_ident(v_missing),
                londiste._full_name(i_table_name)),
            hint = 'separate names by commas and blanks, without quotes';
    end if;
    perform londiste._require_arguments(v_relid, v_args[3:]);
    v_nullable := array(
        select n.name
        from unnest(pgq._column_list(v_options.key_columns, v_columns)) with ordinality as n (name, place)
            join pg_attribute as a on a.attrelid = v_relid and a.attname = n.name
            join pg_type as y on y.oid = a.atttypid
        where not a.attnotnull and not y.typnotnull
        order by n.place);
    if v_nullable <> '{}' then
        raise warning using
            message = format('pkey= names %s, which may be NULL in %s', array_to_string(v_nullable, ', '),
                londiste._full_name(i_table_name)),
            detail = 'an UPDATE or DELETE of a row with a NULL in its key is refused',
            hint = londiste._capture_not_null(i_table_name, v_nullable);
    end if;

    v_always := londiste._always_kinds(i_queue_name, v_relid);
    v_is_new := londiste.drop_capture(i_queue_name, i_table_name) = 0;
    v_function := londiste._install_capture(v_relid, i_table_name, v_args);
    select string_agg(quote_literal(a.value), ', ' order by a.place) into v_arguments
    from unnest(v_args) with ordinality as a (value, place);
    for v_trigger in
        select t.name, t.definition, t.fires, t.deferred
        from londiste._capture_triggers(v_relid, v_args, quote_ident(current_user)::regrole) as t
    loop
        execute format('create %s %I %s execute function %s(%s)',
            case when v_trigger.deferred then 'constraint trigger' else 'trigger' end, v_trigger.name, format(v_trigger.definition, v_relid::regclass), v_function, v_arguments);
        -- A role with the right to create triggers only cannot disable them.  Then the trigger's condition,
        -- checked for each row, keeps it from firing.
        if not v_trigger.fires
            and pg_has_role((select c.relowner from pg_class as c where c.oid = v_relid), 'usage')
        then
            execute format('alter table %s disable trigger %I', v_relid::regclass, v_trigger.name);
        end if;
    end loop;
    if v_always <> '{}' then
        perform londiste.fire_always(i_queue_name, i_table_name, v_always);
    end if;
    perform londiste._capture_partitions(v_relid, v_function, v_args, true);
    if v_is_new
        or not exists (
            select from londiste.capture_partition as k
            where k.queue_name = i_queue_name and k.relid = v_relid)
    then
        -- What happens to its partitions from here on is noticed; with a replaced capture it was before,
        -- unless that refused writes.
        perform londiste._know_partitions(i_queue_name, v_relid);
    end if;
    return londiste.trigger_name(i_queue_name);
end;
$$;
