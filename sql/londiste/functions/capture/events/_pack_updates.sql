create or replace function londiste._pack_updates(
    i_lines refcursor,
    i_old_keys refcursor,
    i_flag text)
returns table (data text, keys text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the rows of _pack_lines() while i_old_keys has the same keys in the same order.
 *
 * i_old_keys -- a cursor like i_lines over the rows before the UPDATE.  At the first different key
 *     packing ends, and the setting i_flag becomes 1 for the transaction.
 *
 * No rows are paired by that: see _same_keys().
 */
begin
    loop
        return query
        with f as materialized (
            select l.line, l.key, l.old_key
            from rows from (londiste._fetch_lines(i_lines, 500), londiste._fetch_lines(i_old_keys, 500))
                as l (line, key, old_line, old_key)
        ), s as materialized (
            select sum(octet_length(f.line)) <= 1000000 as small,
                case when not bool_and(f.key is not distinct from f.old_key)
                    then set_config(i_flag, '1', true) is null
                    else true
                end as same
            from f
        )
        select string_agg(f.line, E'\n'), string_agg(f.key, E'\n')
        from f
        where (select s.small and s.same from s)
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
                where (select not s.small and s.same from s)) as l
            group by l.part
            order by l.part) as w;
        exit when not found;
    end loop;
end;
$$;
