/*
 * The tables of this database whose row changes triggers write into a queue.
 *
 * The first argument of such a trigger is the queue.  A partition has its triggers from its table, and
 * one for TRUNCATE.
 */
select distinct n.nspname, c.relname
from pg_catalog.pg_trigger as t
    join pg_catalog.pg_class as c on c.oid = t.tgrelid
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    cross join pg_catalog.convert_to(%(queue)s, pg_catalog.getdatabaseencoding()) as q (name)
where t.tgconstrindid = 0
    and t.tgparentid = 0
    -- INSERT, DELETE or UPDATE
    and t.tgtype & 28 <> 0
    and substring(t.tgargs for octet_length(q.name) + 1) = q.name || '\x00'
order by n.nspname, c.relname
