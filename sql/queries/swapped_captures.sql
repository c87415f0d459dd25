/*
 * Local tables of a queue whose changes carry the name of another table: both were renamed.
 *
 * Returns the name in the queue of each, and the name that its events carry.
 */
select t.table_name, min(a.name)
from londiste.table_info as t
    join pg_catalog.pg_trigger as g
        on g.tgrelid = londiste.find_table_oid(coalesce(t.dest_table, t.table_name))
    join pg_catalog.pg_proc as p on p.oid = g.tgfoid
    join pg_catalog.pg_namespace as o on o.oid = p.pronamespace
    cross join (
        select convert_to(%(queue)s, getdatabaseencoding()) || '\x00'::bytea) as w (first)
    cross join lateral (
        select convert_from(
            decode(substring(encode(substring(g.tgargs from length(w.first) + 1), 'escape')
                from '^(.*?)\\000'), 'escape'),
            getdatabaseencoding()) as name
    ) as a
where t.queue_name = %(queue)s
    and t.local
    and o.nspname in ('londiste', 'londiste_capture')
    and starts_with(p.proname, '_capture_')
    and g.tgconstrindid = 0
    and g.tgparentid = 0
    and substring(g.tgargs from 1 for length(w.first)) = w.first
    and a.name <> t.table_name
    and exists (
        select from londiste.table_info as other
        where other.queue_name = t.queue_name and other.local and other.table_name = a.name)
group by t.table_name
order by 1
