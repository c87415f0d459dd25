-- The trigger that captures a table for a queue: is it our own, its function, its type, its
-- arguments, each ended by a zero byte.  Parameters: queue, table (schema.name, unquoted).
select o.nspname in ('londiste', 'londiste_capture'), p.proname, g.tgtype::int, g.tgargs
from pg_catalog.pg_trigger as g
    join pg_catalog.pg_proc as p on p.oid = g.tgfoid
    join pg_catalog.pg_namespace as o on o.oid = p.pronamespace
    cross join (
        select convert_to(%(queue)s, getdatabaseencoding()) || '\x00'::bytea) as w (first)
where g.tgrelid = londiste.find_table_oid(%(table)s)
    and g.tgconstrindid = 0
    -- Another queue may capture the table, too.
    and substring(g.tgargs from 1 for length(w.first)) = w.first
    and (o.nspname in ('londiste', 'londiste_capture') and starts_with(p.proname, '_capture_')
        or g.tgname in (
            londiste.trigger_name(%(queue)s), 'zzz_' || londiste.trigger_name(%(queue)s)))
order by g.tgtype::int & 1 desc, g.tgname
limit 1
