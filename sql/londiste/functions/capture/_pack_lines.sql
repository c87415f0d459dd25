create or replace function londiste._pack_lines(i_lines refcursor)
returns table (data text, keys text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * The rows of an open cursor over images and key texts, packed: one image and one key to a line,
 * at most 500 rows and, unless one row alone is longer, not much more than a megabyte.
 *
 * A cursor, because nothing else takes rows in their order without sorting or keeping them all.
 */
begin
    loop
        return query
        select string_agg(l.line, E'\n' order by l.nr), string_agg(l.key, E'\n' order by l.nr)
        from (
            select f.line, f.key, f.nr,
                sum(octet_length(f.line)) over (order by f.nr rows unbounded preceding)
                    / 1000000 as part
            from londiste._fetch_lines(i_lines, 500) with ordinality as f (line, key, nr)) as l
        group by l.part
        order by l.part;
        exit when not found;
    end loop;
end;
$$;
