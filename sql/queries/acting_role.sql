/*
 * Whose rights were missing, and where: the owner of the function of Londiste that ran with the
 * rights of its owner, or NULL; the table, with its owner, or NULL if several have its name.
 *
 * %(functions)s -- the functions that ran, innermost first.
 * %(relation)s -- name of the table, without a schema.
 */
select
    (
        select pg_catalog.pg_get_userbyid(p.proowner)::text
        from pg_catalog.unnest(%(functions)s::text[]) with ordinality f(name, number)
        join pg_catalog.pg_proc p on p.oid = pg_catalog.to_regprocedure(f.name)
        join pg_catalog.pg_namespace n on n.oid = p.pronamespace
        -- Other roles own functions in other schemas.
        where p.prosecdef and n.nspname in ('pgq', 'pgq_coop', 'pgq_ext', 'pgq_node', 'londiste')
        order by f.number
        limit 1),
    t.name,
    t.owner
from (
    select
        min(pg_catalog.format('%%I.%%I', n.nspname, c.relname)) as name,
        min(pg_catalog.pg_get_userbyid(c.relowner)) as owner
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where c.relname = %(relation)s::text and c.relkind in ('r', 'p')
    having count(*) = 1) t
right join (values (true)) one on true
