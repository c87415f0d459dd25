create or replace function londiste.find_column_types(tbl text)
returns text
language plpgsql
stable
strict
set search_path = pg_catalog, pg_temp
as $$
    /* Returns one letter per column in column order: k for the primary key, v for the others. */
begin
    return (
        select string_agg(case when a.attnum = any ((i.indkey::int2[])[0:i.indnkeyatts - 1]) then 'k' else 'v' end, ''
                          order by a.attnum)
        from pg_attribute a
            left join pg_index i on i.indrelid = a.attrelid and i.indisprimary
        where a.attrelid = londiste.find_table_oid(tbl)
            and a.attnum > 0
            and not a.attisdropped);
end;
$$;
