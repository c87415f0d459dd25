/*
 * Rewrite rules of tables.
 *
 * %(oids)s -- the tables.
 */
select
    r.ev_class::int8 as oid,
    r.rulename::text as name,
    r.ev_enabled::text as enabled,
    pg_catalog.pg_get_ruledef(r.oid) as definition,
    pg_catalog.obj_description(r.oid, 'pg_rewrite') as comment
from pg_catalog.pg_rewrite r
where r.ev_class = any(%(oids)s::oid[])
    and r.rulename <> '_RETURN'
order by r.ev_class, r.rulename
