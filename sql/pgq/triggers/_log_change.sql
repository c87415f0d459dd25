create or replace function pgq._log_change(
    i_format text,
    i_op text,
    i_when text,
    i_level text,
    i_relid oid,
    i_schema text,
    i_table text,
    i_args text[],
    i_new record,
    i_old record,
    i_path text)
returns bool
language plpgsql
set search_path = pg_catalog, pg_temp
set DateStyle = 'ISO, YMD'
set IntervalStyle = postgres
set TimeZone = UTC
set extra_float_digits = 1
set bytea_output = hex
set xmloption = content
set lc_monetary = 'C'
set standard_conforming_strings = on
set quote_all_identifiers = off
as $$
/*
 * Inserts the event of one change, for the three change-log triggers.
 *
 * i_format -- sql, url or json.
 * i_path -- the session's search_path, for expressions that have none of their own.
 *
 * The other arguments are those of a trigger function.  Returns false when the change itself must be
 * suppressed (SKIP).
 *
 * The order is part of the interface: deny, default fields with their errors, magic columns,
 * ev_*= expressions, when=, insert.  The settings are pinned because captured text must not
 * depend on the session that writes.
 */
declare
    v_args record;
    v_names text[];
    v_statement text;
    v_new text[];
    v_old text[];
    v_key text[];
    v_shown text[];
    v_fields text[] := array_fill(null::text, array[6]);
    v_row record;
    v_json text;
    v_changed_ignored bool;
    v_changed_logged bool;
    v_magic text;
    v_place int;
    v_condition bool;
begin
    v_args := pgq._trigger_options(i_args, i_op, i_when);
    if v_args.deny then
        raise exception using
            errcode = 'LD101',
            message = format('Table ''%s.%s'' to queue ''%s'': change not allowed (%s)',
                i_schema, i_table, v_args.queue_name, i_op),
            hint = 'write on the root node of the queue; this table is a replica';
    end if;
    if i_level <> 'ROW' and i_op <> 'TRUNCATE' then
        raise exception using
            errcode = 'LD005',
            message = 'pgq trigger must be FOR EACH ROW',
            hint = 'only AFTER TRUNCATE is FOR EACH STATEMENT';
    end if;
    v_key := coalesce(v_args.key_columns, pgq._key_columns(i_relid));
    v_fields[3] := i_schema || '.' || i_table;

    if i_op = 'TRUNCATE' then
        v_fields[1] := case i_format
            when 'json' then pgq._json_event_type(i_op, i_schema, i_table, v_key)
            else 'R' end;
        v_fields[2] := case i_format when 'json' then '{}' else '' end;
        perform pgq.insert_event(v_args.queue_name, v_fields[1], v_fields[2], v_fields[3],
            v_fields[4], v_fields[5], v_fields[6]);
        return true;
    end if;

    select r.names, r.statement into v_names, v_statement from pgq._row_values_sql(i_relid) as r;
    if v_args.key_columns is not null then
        v_key := pgq._column_list(v_key, v_names);
    end if;
    if i_op <> 'INSERT' and v_key = '{}' then
        raise exception using
            errcode = 'LD100',
            message = 'Update/Delete on table without pkey',
            detail = format('table %s.%s, queue %s', i_schema, i_table, v_args.queue_name),
            hint = 'add a primary key, or name key columns in the trigger: pkey=column,column';
    end if;

    if i_op = 'UPDATE' and i_when = 'BEFORE' then
        i_new := pgq._with_generated(i_relid, i_new, i_old);
    end if;
    if i_op <> 'DELETE' then
        execute v_statement into v_new using i_new;
    end if;
    if i_op <> 'INSERT' then
        execute v_statement into v_old using i_old;
    end if;
    if not v_key <@ v_names then
        raise exception using
            errcode = 'LD005',
            message = 'bad param to pgq trigger',
            detail = format('pkey=%s names a column that table %s.%s does not have',
                array_to_string(v_key, ','), i_schema, i_table),
            hint = 'create the trigger again with columns of the table';
    end if;

    -- The key stays in the row even when ignore= names it: without it no node can apply the row.
    select array_agg(f.name order by f.place)
        into v_shown
    from unnest(v_names) with ordinality as f (name, place)
    where not starts_with(f.name, '_pgq_ev_')
        and (f.name <> all (v_args.ignored) or f.name = any (v_key));

    if i_op = 'UPDATE' then
        if exists (
            select
            from unnest(v_names, v_new, v_old) as f (name, new, old)
            where f.name = any (v_key)
                and f.new is distinct from f.old)
            and not pgq._same_key(i_relid, v_key, i_new, i_old)
        then
            raise exception using
                errcode = 'LD100',
                message = 'primary key update not allowed',
                detail = format('table %s.%s, key %s, queue %s', i_schema, i_table,
                    array_to_string(v_key, ', '), v_args.queue_name),
                hint = 'delete the row and insert it again, or use londiste''s own capture,'
                    ' which replicates such updates';
        end if;
        select
            coalesce(bool_or(f.name = any (v_shown)), false),
            coalesce(bool_or(f.name <> all (v_shown)), false)
            into v_changed_logged, v_changed_ignored
        from unnest(v_names, v_new, v_old) as f (name, new, old)
        where f.new is distinct from f.old;
        -- Magic columns count as ignored ones.
        if v_changed_ignored and not v_changed_logged then
            return not v_args.skip;
        end if;
    end if;

    if i_op = 'DELETE' then
        v_row := i_old;
    else
        v_row := i_new;
    end if;
    case i_format
        when 'sql' then
            v_fields[1] := left(i_op, 1);
            v_fields[2] := pgq._sql_fragment(i_op, v_shown,
                pgq._pick(v_shown, v_names, v_new), pgq._pick(v_shown, v_names, v_old), v_key);
        when 'url' then
            v_fields[1] := left(i_op, 1) || ':' || array_to_string(v_key, ',');
            v_fields[2] := pgq._urlencode_row(v_shown,
                pgq._pick(v_shown, v_names, coalesce(v_new, v_old)));
        when 'json' then
            v_fields[1] := pgq._json_event_type(i_op, i_schema, i_table, v_key);
            execute pgq._row_json_sql(i_relid, v_shown) into v_json using v_row;
            v_fields[2] := v_json;
    end case;
    if v_args.backup and i_op = 'UPDATE' then
        if i_format = 'json' then
            execute pgq._row_json_sql(i_relid, v_shown) into v_json using i_old;
            v_fields[4] := v_json;
        else
            v_fields[4] := pgq._urlencode_row(v_shown, pgq._pick(v_shown, v_names, v_old));
        end if;
    end if;

    foreach v_magic in array v_names loop
        continue when not starts_with(v_magic, '_pgq_ev_');
        v_place := array_position(
            '{type,data,extra1,extra2,extra3,extra4}'::text[], substr(v_magic, 9));
        if v_place is null then
            raise exception using
                errcode = 'LD005',
                message = format('Unknown magic column: %s', v_magic),
                hint = 'known are _pgq_ev_type, _pgq_ev_data and _pgq_ev_extra1 to _pgq_ev_extra4';
        end if;
        v_fields[v_place] :=
            (coalesce(v_new, v_old))[array_position(v_names, v_magic)];
    end loop;

    for v_field in 1 .. 6 loop
        if v_args.fields[v_field] is not null then
            v_fields[v_field] := pgq._row_expression(v_args.fields[v_field], v_row,
                v_names, coalesce(v_args.path, i_path));
        end if;
    end loop;

    if v_args.condition is not null then
        -- The server refuses what is not boolean: 1 is not true.
        v_condition := pgq._row_expression(format(E'(%s\n) and true', v_args.condition), v_row, v_names,
            coalesce(v_args.path, i_path))::bool;
        if v_condition is null then
            raise exception using
                errcode = 'LD005',
                message = 'when= expression of pgq trigger must not be NULL',
                detail = v_args.condition,
                hint = 'wrap it: coalesce(..., false)';
        end if;
        if not v_condition then
            return not v_args.skip;
        end if;
    end if;

    perform pgq.insert_event(v_args.queue_name, v_fields[1], v_fields[2], v_fields[3],
        v_fields[4], v_fields[5], v_fields[6]);
    return not v_args.skip;
end;
$$;
