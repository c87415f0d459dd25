create or replace function londiste._columns_now(i_relid oid)
returns table (
    pos int2,
    name text,
    type_id oid,
    generated "char",
    as_text text,
    as_json text)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
/*
 * Returns the columns of a table that the server knows, whatever the snapshot shows of the catalog.
 *
 * Otherwise the result is that of pgq._row_columns().
 *
 * Names and types are those of the table's row type.  has_column_privilege() is NULL for the number of
 * a column that does not exist.  Both read the server's caches.  What the snapshot does not show of
 * a column gets the usual value: not generated, and logged as text.
 */
declare
    v_row text := format('(select (null::%s).*) as r', i_relid::regclass);
    v_names text[];
    v_types oid[];
    v_places int2[] := '{}';
    v_place int2 := 1;
begin
    -- In a capture from a dump: there the table had another oid.
    if i_relid::regclass::text = i_relid::text then
        return;
    end if;
    if not has_schema_privilege((select c.relnamespace from pg_class as c where c.oid = i_relid), 'usage') then
        -- This role may not name the type.
        return query select * from pgq._row_columns(i_relid);
        return;
    end if;
    execute 'select array(select json_object_keys(row_to_json(r.*))) from ' || v_row into v_names;
    if v_names = '{}' then
        return;
    end if;
    execute (
        select format('select array[%s]::oid[] from %s',
            string_agg(format('pg_typeof(r.%s)', londiste._capture_column(n.name)), ', ' order by n.nr), v_row)
        from unnest(v_names) with ordinality as n (name, nr)) into v_types;
    while cardinality(v_places) < cardinality(v_names) loop
        if has_column_privilege(i_relid, v_place, 'select') is not null then
            v_places := v_places || v_place;
        end if;
        -- 1600 is the maximum.
        exit when v_place = 1600;
        v_place := v_place + 1;
    end loop;
    return query
        select n.pos, n.name, n.type_id, coalesce(a.attgenerated, ''),
            coalesce(c.as_text, p.as_text), coalesce(c.as_json, p.as_text)
        from unnest(v_places, v_names, v_types) as n (pos, name, type_id)
            left join pg_attribute as a on a.attrelid = i_relid and a.attnum = n.pos
            left join pgq._row_columns(i_relid) as c on c.pos = n.pos and c.type_id = n.type_id
            cross join (
                select 'case pg_catalog.num_nulls(%1$s) when 0 then pg_catalog.format(''%%s'', %1$s) end'
            ) as p (as_text)
        where coalesce(a.attgenerated, '') <> 'v';
end;
$$;
