create or replace function londiste.merge_on_time(
    fn_conf text,
    tick_id int8,
    ev_id int8,
    ev_time timestamptz,
    ev_txid int8,
    ev_retry int4,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Merges one row event into a table with several writers; the newest version of a row stays.
 *
 * The row is written when it does not exist, or when its time is later than that of the existing
 * row.  Of two versions with equal time the one with the greater text stays, with the columns in the
 * order of their names, so that all nodes get the same result.
 *
 * A DELETE deletes the row unless the row is newer than the deleted version.  If the event does not
 * contain the time of that version, the start of the transaction counts instead.
 *
 * fn_conf -- JSON: "table", and "timefield", the column with the time.
 * ev_type, ev_data -- in the JSON form, one row.
 *
 * The table is written with the rights of its owner, as by write_as_owner().
 *
 * Returns written, deleted or older.  Raises LD005 for a table without that column or without key,
 * for a TRUNCATE, which has no time, and for a table that lacks a column of the event; of a DELETE
 * the key is enough.
 */
declare
    v_conf jsonb := fn_conf::jsonb;
    v_what jsonb := ev_type::jsonb;
    v_op text := v_what->>'op';
    v_time text := v_conf->>'timefield';
    v_table text := londiste.quote_fqname(v_conf->>'table');
    v_relid oid := to_regclass(v_table);
    v_image jsonb;
    v_key text[];
    v_kinds text;
    v_names text;
    v_values text;
    v_sets text;
    v_here text;
    v_new text;
    v_equal text;
    v_type text;
    v_sql text;
    v_lacking text;
    v_count int8;
    v_partitioned bool := exists (select from pg_class c where c.oid = v_relid and c.relkind = 'p');
begin
    if v_op = 'TRUNCATE' then
        raise exception using
            errcode = 'LD005',
            message = format('TRUNCATE of table %s, which is written on several nodes', v_table),
            detail = 'TRUNCATE has no time, so newer rows cannot be found',
            hint = 'delete the rows instead, and skip this event';
    end if;
    select format_type(a.atttypid, null) into v_type
    from pg_attribute a
    where a.attrelid = v_relid and a.attname = v_time and a.attnum > 0 and not a.attisdropped;
    v_key := array(select jsonb_array_elements_text(v_what->'pkey'));
    if v_type is null or cardinality(v_key) = 0 then
        raise exception using
            errcode = 'LD005',
            message = format('table %s has no column %s, or no key', v_table, coalesce(v_time, 'NULL')),
            detail = 'rows are found by the key, and their versions compared by that column',
            hint = 'set timefield to a column that every write sets';
    end if;

    v_image := ev_data::jsonb;
    select string_agg(n.name, ', ' order by n.name collate "C") into v_lacking
    from (
        select unnest(v_key) as name
        union
        select jsonb_object_keys(v_image) where v_op <> 'DELETE'
    ) n
    where not exists (
        select from pg_attribute a
        where a.attrelid = v_relid and a.attname = n.name and a.attnum > 0 and not a.attisdropped);
    if v_lacking is not null then
        raise exception using
            errcode = 'LD005',
            message = format('table %s has no column %s', v_table, v_lacking),
            detail = format('event %s contains it, and its value would be lost', ev_id),
            hint = 'add the column to the table, or exclude it where the table is captured: ignore=';
    end if;
    select
        string_agg(format('%I %s', a.attname, k.kind), ', ' order by a.attnum),
        string_agg(format('%I', a.attname), ', ' order by a.attnum),
        string_agg(format('r.%I%s', a.attname, k.cast_to), ', ' order by a.attnum),
        string_agg(format('%1$I = excluded.%1$I', a.attname), ', ' order by a.attnum)
            filter (where a.attname <> all (v_key) and a.attidentity <> 'a'),
        string_agg(format('t.%I', a.attname), ', ' order by a.attname collate "C"),
        string_agg(format('excluded.%I', a.attname), ', ' order by a.attname collate "C"),
        string_agg(format('t.%1$I = r.%1$I', a.attname), ' and ' order by a.attnum)
            filter (where a.attname = any (v_key))
    into v_kinds, v_names, v_values, v_sets, v_here, v_new, v_equal
    from pg_attribute a
        cross join lateral (
            select format_type(a.atttypid, a.atttypmod) as name,
                exists (
                    -- Domains stand for the type below them.
                    with recursive down as (
                        select a.atttypid as oid
                        union all
                        select t.typbasetype from down join pg_type t on t.oid = down.oid where t.typtype = 'd'
                    )
                    select from down where down.oid in ('json'::regtype, 'jsonb'::regtype)) as is_json
        ) n
        -- A text of JSON is a string in the image.
        cross join lateral (
            select case when n.is_json then 'text' else n.name end as kind,
                case when n.is_json then '::' || n.name else '' end as cast_to
        ) k
    where a.attrelid = v_relid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
        and v_image ? a.attname;

    if v_op = 'DELETE' then
        v_sql := format('delete from %s%s t using json_to_record($1::json) r(%s) where %s and %s',
            -- ONLY of a partitioned table is no row.
            case when v_partitioned then '' else 'only ' end, v_table, v_kinds, v_equal,
            case when v_image ? v_time
                then format('(t.%1$I <= r.%1$I or t.%1$I is null)', v_time)
                else format('(t.%1$I <= %3$L::timestamptz::%2$s or t.%1$I is null)',
                    v_time, v_type, ev_time) end);
        v_count := londiste._run_as_owner(v_relid, v_sql, ev_data);
        return case when v_count > 0 then 'deleted' else 'older' end;
    end if;

    if not v_image ? v_time then
        raise exception using
            errcode = 'LD005',
            message = format('event %s does not contain column %s', ev_id, v_time),
            detail = format('table %s', v_table),
            hint = 'capture the table on the root without ignore= for it';
    end if;
    v_sql := format(
        'insert into %1$s as t (%2$s) overriding system value'
        ' select %3$s from json_to_record($1::json) r(%4$s) on conflict (%5$s) do %6$s',
        v_table, v_names, v_values, v_kinds,
        (select string_agg(quote_ident(k), ', ') from unnest(v_key) k),
        case when v_sets is null then 'nothing' else format(
            'update set %1$s where case when excluded.%2$I is distinct from t.%2$I'
            ' then coalesce(excluded.%2$I > t.%2$I, t.%2$I is null)'
            ' else (row(%3$s)::text collate "C") > (row(%4$s)::text) end',
            v_sets, v_time, v_new, v_here) end);
    v_count := londiste._run_as_owner(v_relid, v_sql, ev_data);
    return case when v_count > 0 then 'written' else 'older' end;
end;
$$;
