/*
 * The local tables of a queue, by their names in this database, and below them those inheriting
 * tables that have triggers of the queue: what the drop of these triggers locks.
 *
 * %(queue)s -- the queue.
 * %(table)s -- a table of the queue; NULL: all.
 */
with recursive tree(relid, local) as (
    select r.oid, true
    from londiste.table_info t
    cross join lateral londiste.find_table_oid(coalesce(t.dest_table, t.table_name)) r(oid)
    where t.queue_name = %(queue)s and t.local and r.oid is not null
        and coalesce(t.table_name = %(table)s::text, true)
    union
    select i.inhrelid, false
    from tree t
    join pg_catalog.pg_inherits i on i.inhparent = t.relid
    join pg_catalog.pg_class c on c.oid = i.inhrelid and not c.relispartition
)
select distinct n.nspname::text as schema, c.relname::text as name
from tree t
join pg_catalog.pg_class c on c.oid = t.relid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where t.local or exists (
    select from pg_catalog.pg_trigger g
    where g.tgrelid = c.oid and position(
        convert_to(%(queue)s, pg_catalog.getdatabaseencoding()) || '\x00'::bytea in g.tgargs) = 1)
