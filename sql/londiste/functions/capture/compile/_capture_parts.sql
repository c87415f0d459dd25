create or replace function londiste._capture_parts(
    i_relid oid,
    i_args text[],
    i_new text,
    i_old text,
    out on_insert text,
    out on_update text,
    out on_delete text,
    out on_statement text,
    out on_truncate text,
    out key_changed text,
    out update_silent text,
    out key_columns text[])
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the statements that capture a table, built from its current columns.
 *
 * i_args -- arguments of the trigger: queue, table name for the events, options.
 * i_new, i_old -- the texts that stand for the rows: new and old in a trigger function, ($1) and ($2)
 *     for EXECUTE.
 *
 * on_... are SELECTs that insert events, on_statement for the UPDATE of a whole statement by
 * its transition tables new_rows and old_rows; key_changed and update_silent are boolean
 * expressions.  Without a key on_update, on_delete and what belongs to them are NULL.
 */
declare
    v_queue text := i_args[1];
    v_table text := i_args[2];
    v_options record := londiste._capture_options(i_args[3:]);
    v_names text[] := array(select c.name from pgq._row_columns(i_relid) as c);
    v_ignored text[];
    v_types text[];
    v_op text;
    v_event record;
    v_before record;
    v_plain record;
    v_statement text;
    v_old_key text;
    v_new_key text;
begin
    key_columns := coalesce(v_options.key_columns, '{}');
    if key_columns = '{}' or not key_columns <@ v_names then
        key_columns := pgq._key_columns(i_relid);
    end if;
    v_types := array(
        select pgq._json_event_type(o.op, split_part(v_table, '.', 1),
            substr(v_table, position('.' in v_table) + 1), key_columns)
        from unnest('{INSERT,UPDATE,DELETE,TRUNCATE}'::text[]) with ordinality as o (op, place)
        order by o.place);

    on_truncate := format('select pgq.insert_event(%L, %L, %L, %L, null, null, null)',
        v_queue, v_types[4], '{}', v_table);
    foreach v_op in array '{INSERT,UPDATE,DELETE}'::text[] loop
        continue when v_op <> 'INSERT' and key_columns = '{}';
        v_event := londiste._capture_event(i_relid, v_options, key_columns,
            case v_op when 'DELETE' then i_old else i_new end,
            case v_op when 'UPDATE' then i_old end);
        v_statement := format('select pgq.insert_event(%L, %L, %s, %L, %s, %s, %s)',
            v_queue,
            v_types[array_position('{INSERT,UPDATE,DELETE}'::text[], v_op)],
            v_event.data, v_table, v_event.extra2, v_event.extra3, v_event.extra4);
        if v_options.condition is not null then
            v_statement := v_statement || ' where ' || v_event.logged;
        end if;
        case v_op
            when 'INSERT' then on_insert := v_statement;
            when 'UPDATE' then on_update := v_statement;
            when 'DELETE' then on_delete := v_statement;
        end case;
    end loop;
    if key_columns = '{}' then
        return;
    end if;

    -- Most types compare by their text: 1.0 and 1.00 are equal keys, but the row has changed,
    -- and only delete and insert carry that to the other side.
    select string_agg(
            case
                when c.type_id = any (
                    '{bool,int2,int4,int8,oid,uuid,date,timestamp,timestamptz}'::regtype[]::oid[])
                then format('%1$s.%3$s is distinct from %2$s.%3$s',
                    i_new, i_old, londiste._capture_column(c.name))
                else format('%s is distinct from %s',
                    format(c.as_text, i_new || '.' || londiste._capture_column(c.name)),
                    format(c.as_text, i_old || '.' || londiste._capture_column(c.name)))
            end,
            ' or ' order by c.pos)
        into key_changed
    from pgq._row_columns(i_relid) as c
    where c.name = any (key_columns);

    v_ignored := array(
        select n.name from unnest(v_options.ignored) as n (name)
        where n.name = any (v_names) and n.name <> all (key_columns));
    if v_ignored <> '{}' then
        update_silent := format('%s is distinct from %s and %s = %s',
            londiste._capture_texts(i_relid, i_new, v_ignored),
            londiste._capture_texts(i_relid, i_old, v_ignored),
            londiste._capture_image(i_relid, i_new, v_ignored),
            londiste._capture_image(i_relid, i_old, v_ignored));
    end if;

    v_new_key := londiste._capture_texts(i_relid, 'n', key_columns);
    v_old_key := londiste._capture_texts(i_relid, 'o', key_columns);
    v_before := londiste._capture_event(i_relid, v_options, key_columns, 'o', null::text);
    v_plain := londiste._capture_event(i_relid, v_options, key_columns, 'n', null::text);
    v_event := londiste._capture_event(i_relid, v_options, key_columns, 'n', 'o');
    -- Which old row became which new one is unknown and does not matter: keys that disappeared
    -- are deleted, keys that still exist are updated, the others are inserted.
    on_statement := format('select pgq.insert_event(%L, e.type, e.data, %L, e.extra2, e.extra3,'
            || ' e.extra4) from (select 1 as step, %L as type, %s as data, %s::text as extra2,'
            || ' %s::text as extra3, %s::text as extra4 from old_rows as o'
            || ' where not exists (select from new_rows as n where %s = %s) and %s',
            v_queue, v_table, v_types[3],
            v_before.data, v_before.extra2, v_before.extra3, v_before.extra4,
            v_new_key, v_old_key, v_before.logged)
        || format(' union all select 2, %L, %s, %s, %s, %s from new_rows as n'
            || ' join old_rows as o on %s = %s where %s and %s',
            v_types[2], v_event.data, v_event.extra2, v_event.extra3, v_event.extra4,
            v_new_key, v_old_key, v_event.logged,
            case when v_ignored = '{}' then 'true' else format('%s <> %s',
                londiste._capture_image(i_relid, 'n', v_ignored),
                londiste._capture_image(i_relid, 'o', v_ignored)) end)
        || format(' union all select 3, %L, %s, %s, %s, %s from new_rows as n'
            || ' where not exists (select from old_rows as o where %s = %s) and %s'
            || ' order by 1) as e',
            v_types[1], v_event.data, v_plain.extra2, v_event.extra3, v_event.extra4,
            v_new_key, v_old_key, v_event.logged);
end;
$$;
