create or replace function londiste._pack_lines(i_lines refcursor)
returns table (data text, keys text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the rows of an open cursor over images and key texts, packed.
 *
 * One image and one key per line, at most 500 rows and about one megabyte, unless one row is longer.
 *
 * A cursor, because no other way returns rows in order without sorting or keeping them all.
 * Wide rows are split off before anything is joined, so that memory stays bounded.
 */
begin
    loop
        return query
        with f as materialized (
            select l.line, l.key from londiste._fetch_lines(i_lines, 500) as l
        ), s as materialized (
            select sum(octet_length(f.line)) <= 1000000 as small from f
        )
        select string_agg(f.line, E'\n'), string_agg(f.key, E'\n')
        from f
        where (select s.small from s)
        having count(*) > 0
        union all
        select w.data, w.keys
        from (
            select string_agg(l.line, E'\n' order by l.nr) as data,
                string_agg(l.key, E'\n' order by l.nr) as keys
            from (
                select f.line, f.key, row_number() over () as nr,
                    sum(octet_length(f.line)) over (rows unbounded preceding) / 1000000 as part
                from f
                where not (select s.small from s)) as l
            group by l.part
            order by l.part) as w;
        exit when not found;
    end loop;
end;
$$;
