create or replace function londiste._capture_pieces(
    i_relid oid,
    i_args text[],
    i_new text,
    i_old text,
    out key_columns text[],
    out on_insert text,
    out on_update text,
    out on_delete text,
    out on_truncate text,
    out on_gone text,
    out line text,
    out line_source text,
    out line_key text,
    out gone text,
    out gone_source text,
    out gone_key text,
    out pack_types text[],
    out state_of_old text,
    out state_of_new text,
    out key_changed text,
    out update_silent text)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the pieces of SQL that capture rows of a table one by one, built from its current columns.
 *
 * i_args -- arguments of the trigger: queue, table name for the events, options.
 * i_new, i_old -- the texts that stand for the rows: new and old in a trigger function, ($1) and ($2)
 *     for EXECUTE.
 *
 * on_gone is a DELETE with the key columns only.  line, line_source and line_key are image, FROM
 * item and key of a new row for a packed event, gone... those of a deleted one.  pack_types are the
 * types of packed INSERT, UPDATE and DELETE.
 *
 * on_... are SELECTs of the fields ev_type, ev_data, ev_extra1 ... ev_extra4 of one event or none.
 * state_of_... are SELECTs of the arguments of _log_state() after the queue, for the keys of the
 * two rows.  key_changed and update_silent are boolean expressions.
 *
 * An image other than that of an INSERT raises an error for a row whose key contains NULL.
 *
 * Without a key only on_insert and on_truncate are not NULL.  With the option whole_row on_delete is
 * not NULL either and contains the whole row: an update is then logged as a delete and an insert.
 */
declare
    v_whole bool := 'whole_row' = any (i_args[3:]);
    v_table text := i_args[2];
    v_options record := londiste._capture_options(i_args[3:]);
    v_columns text[] := array(select c.name from londiste._row_columns(i_relid) as c);
    v_without text[];
    v_names text[];
    v_key_names text[];
    v_sign text[];
    v_op text;
    v_row text;
    v_fields record;
    v_inserted record;
    v_now record;
    v_key record;
    v_same text;
    v_exact bool;
    v_late bool;
    v_set_type text;
    v_unset_type text;
    v_statement text;
    v_choice text;
    v_alone text := 'pg_catalog.starts_with(pg_catalog.current_setting(''transaction_isolation''), ''read '')';
    v_there text;
    v_image text;
begin
    key_columns := londiste._capture_key_columns(i_relid, i_args);
    v_without := array(
        select n.name from unnest(v_options.ignored) as n (name)
        where n.name = any (v_columns) and n.name <> all (key_columns));
    v_names := londiste._capture_names(i_relid, v_without, key_columns);
    v_key_names := londiste._capture_names(i_relid,
        array(select c.name from unnest(v_columns) as c (name) where c.name <> all (key_columns)), key_columns);
    v_sign := case when v_options.extras[2] is null then v_names end;
    on_truncate := format('select %L, %L, %L, null, null, null',
        londiste._capture_type('TRUNCATE', v_table, key_columns, null::text[]), '{}', v_table);
    v_inserted := londiste._capture_fields(i_relid, v_options, key_columns, i_new, null::text, v_names);
    foreach v_op in array '{INSERT,UPDATE,DELETE}'::text[] loop
        continue when key_columns = '{}' and (v_op = 'UPDATE' or v_op = 'DELETE' and not v_whole);
        if v_op = 'DELETE' then
            v_fields := londiste._capture_fields(i_relid, v_options, key_columns, i_old, null::text, v_names);
        elsif v_op = 'UPDATE' and v_options.backup then
            v_fields := londiste._capture_fields(i_relid, v_options, key_columns, i_new, i_old, v_names);
        else
            v_fields := v_inserted;
        end if;
        if v_op <> 'INSERT' then
            v_fields.image := londiste._capture_guarded(i_relid, i_args, key_columns,
                case v_op when 'DELETE' then i_old else i_new end, v_fields.image);
        end if;
        v_statement := format('select %L, %s, %L, %s, %s, %s%s%s',
            londiste._capture_type(v_op, v_table, key_columns, v_sign),
            v_fields.image, v_table, v_fields.extra2, v_fields.extra3, v_fields.extra4,
            coalesce(' from ' || nullif(v_fields.source, ''), ''),
            coalesce(' where ' || v_fields.logged, ''));
        case v_op
            when 'INSERT' then on_insert := v_statement;
            when 'UPDATE' then on_update := v_statement;
            when 'DELETE' then on_delete := v_statement;
        end case;
    end loop;
    line := v_inserted.image;
    line_source := v_inserted.source;
    line_key := v_inserted.extra3;
    pack_types := array(
        select londiste._capture_type(o.op, v_table, key_columns,
            case o.op when 'DELETE' then v_key_names else v_names end, 'pack')
        from unnest('{INSERT,UPDATE,DELETE}'::text[]) with ordinality as o (op, place)
        order by o.place);
    if key_columns = '{}' then
        return;
    end if;
    key_changed := londiste._capture_key_changed(i_relid, key_columns, i_new, i_old);
    if v_without <> '{}' then
        update_silent := format('%s is distinct from %s and %s = %s',
            londiste._capture_texts(i_relid, i_new, v_without),
            londiste._capture_texts(i_relid, i_old, v_without),
            londiste._capture_image(i_relid, i_new, v_without),
            londiste._capture_image(i_relid, i_old, v_without));
    end if;

    v_fields := londiste._capture_fields(i_relid, v_options, key_columns, i_old, null::text, key_columns);
    v_fields.image := londiste._capture_guarded(i_relid, i_args, key_columns, i_old, v_fields.image);
    gone := v_fields.image;
    gone_source := v_fields.source;
    gone_key := v_fields.extra3;
    on_gone := format('select %L, %s, %L, null, %s, null%s',
        londiste._capture_type('DELETE', v_table, key_columns, v_key_names),
        v_fields.image, v_table, v_fields.extra3,
        coalesce(' from ' || nullif(v_fields.source, ''), ''));

    -- With the key of an earlier row that another transaction deletes, or has deleted after our snapshot.
    v_late := londiste._capture_deferrable(i_relid, key_columns);
    v_choice := case when v_late and londiste._capture_always_state(i_relid, key_columns)
        then ' order by londiste._written_here(t.xmin) desc' else '' end;
    -- A snapshot of the transaction may show a row that another session has deleted since.  With a
    -- unique index that is checked row by row, no other session has a row of a key that this
    -- transaction has changed.
    v_there := case when not v_late
        then format(' and (%s or londiste._written_here(t.xmin))', v_alone)
        else '' end;
    v_now := londiste._capture_fields(i_relid, v_options, key_columns, 't', null::text, v_names);
    -- In the list, and volatile, so that only the chosen row is read.
    v_image := case when v_choice = '' then v_now.image
        else format('case when %s or londiste._row_there(t.xmin, t.xmax) then %s end', v_alone, v_now.image) end;
    v_key := londiste._capture_fields(i_relid, v_options, key_columns, 't', null::text, key_columns);
    v_set_type := londiste._capture_type('INSERT', v_table, key_columns, v_sign, 'state');
    v_unset_type := londiste._capture_type('DELETE', v_table, key_columns,
        case when v_sign is not null then v_key_names end,
        'state');
    v_exact := londiste._capture_exact(i_relid, key_columns);
    foreach v_row in array array[i_old, i_new] loop
        -- The fields of the old row are known.
        if v_row = i_new then
            v_fields := londiste._capture_fields(i_relid, v_options, key_columns, i_new, null::text, key_columns);
            v_fields.image := londiste._capture_guarded(i_relid, i_args, key_columns, i_new, v_fields.image);
        end if;
        v_same := londiste._capture_same(i_relid, key_columns, 't', v_row);
        v_statement := format('select %L, %L, s.image, (select %s%s), %L, %s, %s, %s',
            v_set_type,
            v_unset_type,
            v_fields.image,
            coalesce(' from ' || nullif(v_fields.source, ''), ''),
            v_table,
            case when v_options.extras[1] is null then 'null::pg_catalog.text' else
                format('case when s.image is null then %s else s.extra2 end', v_fields.extra2) end,
            case when v_options.extras[2] is null then v_fields.extra3 else
                format('case when s.image is null then %s else s.extra3 end', v_fields.extra3) end,
            case when v_options.extras[3] is null then 'null::pg_catalog.text' else
                format('case when s.image is null then %s else s.extra4 end', v_fields.extra4) end)
            || format(' from (select 1) as one left join lateral (select %s as image, %s as extra2,'
                || ' %s as extra3, %s as extra4, %s as logged from %s as t%s where %s%s limit 1) as s on true',
            v_image, v_now.extra2, v_now.extra3, v_now.extra4,
            coalesce(v_now.logged, 'true'),
            londiste._capture_from(i_relid),
            coalesce(' cross join lateral ' || nullif(v_now.source, ''), ''),
            v_same || v_there,
            v_choice)
            || coalesce(' where case when s.image is null then ' || v_fields.logged
                || ' else s.logged end', '');
        if not v_exact then
            -- The row may have the key in another text: then the key of that text is logged as gone first.
            v_statement := format('select c.* from (select 1) as one'
                    || ' left join lateral (select %s as image, (select %s%s) as key, %s as extra2, %s as extra3,'
                    || ' %s as extra4, %s as logged, %s operator(pg_catalog.<>) %s as other'
                    || ' from %s as t%s where %s%s limit 1) as s on true cross join lateral (',
                v_image, v_key.image, coalesce(' from ' || nullif(v_key.source, ''), ''),
                v_now.extra2, v_now.extra3, v_now.extra4,
                coalesce(v_now.logged, 'true'),
                londiste._capture_key(i_relid, 't', key_columns), londiste._capture_key(i_relid, v_row, key_columns),
                londiste._capture_from(i_relid),
                coalesce(' cross join lateral ' || nullif(v_now.source, ''), ''),
                v_same || v_there,
                v_choice)
                || format('select %1$L, %2$L, null::pg_catalog.text, (select %3$s%4$s), %5$L, %6$s, %7$s, %8$s'
                    || ' where (s.image is null or s.other)%9$s'
                    || ' union all select %1$L, %2$L, s.image, s.key, %5$L, s.extra2, s.extra3, s.extra4'
                    || ' where s.image is not null and s.logged) as c',
                v_set_type, v_unset_type,
                v_fields.image, coalesce(' from ' || nullif(v_fields.source, ''), ''), v_table,
                v_fields.extra2, v_fields.extra3, v_fields.extra4,
                coalesce(' and ' || v_fields.logged, ''));
        end if;
        if v_row = i_old then
            state_of_old := v_statement;
        else
            state_of_new := v_statement;
        end if;
    end loop;
end;
$$;
