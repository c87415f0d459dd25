/*
 * The local tables of a queue, by their names here, with the average bytes of a row by the
 * statistics of the last ANALYZE; NULL when there are none.
 */
select d.name,
    (select sum(s.avg_width)
        from pg_catalog.pg_stats as s
        where s.schemaname = split_part(d.name, '.', 1)
            and s.tablename = substr(d.name, position('.' in d.name) + 1)
            and not s.inherited)::int8
from londiste.table_info as t
    cross join lateral (select coalesce(t.dest_table, t.table_name) as name) as d
where t.queue_name = %(queue)s
    and t.local
order by t.nr
