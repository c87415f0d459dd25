create or replace function pgq._column_list(i_parts text[], i_columns text[])
returns text[]
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the columns that a list like "a, b c" names: white space separates names as commas do.
 *
 * i_parts -- the texts between the commas.
 * i_columns -- the columns of the table.  A part that is one of them, blanks included, is one name.
 *     Any other part is split into words.  NULL: both readings, for lists where an additional name
 *     has no effect.
 */
begin
    return coalesce((
        select array_agg(n.name order by n.place)
        from (
            select w.name, min(p.place * 1000 + w.place) as place
            from unnest(i_parts) with ordinality as p (part, place)
                cross join lateral (select btrim(p.part, E' \t\n\x0b\f\r')) as t (part)
                cross join lateral (
                    select t.part, 0
                    where i_columns is null or t.part = any (i_columns)
                    union all
                    select v.word, v.place
                    from regexp_split_to_table(t.part, E'[ \\t\\n\\v\\f\\r]+') with ordinality as v (word, place)
                    where i_columns is null or t.part <> all (i_columns)
                ) as w (name, place)
            where w.name <> ''
            group by w.name
        ) as n), '{}');
end;
$$;
