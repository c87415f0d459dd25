/*
 * The tables of a queue whose triggers pgq_node.drop_node() drops, and may not: it runs with the
 * rights of its owner.
 *
 * %(queue)s -- the queue.
 *
 * owner -- of the table; role -- the owner of the function; owns -- it has the rights of owner.
 */
select
    pg_catalog.format('%%I.%%I', n.nspname, c.relname) as name,
    n.nspname::text as schema,
    pg_catalog.pg_get_userbyid(c.relowner)::text as owner,
    r.rolname::text as role,
    pg_catalog.pg_has_role(r.oid, c.relowner, 'usage') as owns
from pg_catalog.pg_proc p
join pg_catalog.pg_roles r on r.oid = p.proowner
cross join pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where p.oid = pg_catalog.to_regprocedure('pgq_node.drop_node(text,text)') and p.prosecdef
    and c.oid in (
        select g.tgrelid
        from pg_catalog.pg_trigger g
        where g.tgconstrindid = 0 and position(
            convert_to(%(queue)s, pg_catalog.getdatabaseencoding()) || '\x00'::bytea in g.tgargs) = 1)
    and not c.relispartition
    and not (
        pg_catalog.pg_has_role(r.oid, c.relowner, 'usage')
        and pg_catalog.has_schema_privilege(r.oid, n.oid, 'usage'))
order by n.nspname, c.relname
