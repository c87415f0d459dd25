/*
 * Types that the owner of a table may not use, with the grant that allows it; no row if the table is
 * not written as its owner.
 *
 * %(schema)s, %(name)s -- the table; %(types)s -- as format_type() writes them.
 */
select c.relowner::pg_catalog.regrole::text as owner, g.type, g.remedy
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
cross join unnest(%(types)s::text[]) as given (type)
join pg_catalog.pg_type a on a.oid = pg_catalog.to_regtype(given.type)
join pg_catalog.pg_type t
    on t.oid = case when a.typelem <> 0 and a.typcategory = 'A' then a.typelem else a.oid end
join pg_catalog.pg_namespace tn on tn.oid = t.typnamespace
cross join lateral (
    select
        pg_catalog.format_type(t.oid, null) as type,
        pg_catalog.format(
            'grant usage on schema %%I to %%s', tn.nspname, c.relowner::pg_catalog.regrole) as remedy
    where not pg_catalog.has_schema_privilege(c.relowner, tn.oid, 'USAGE')
    union all
    select
        pg_catalog.format_type(t.oid, null),
        pg_catalog.format(
            'grant usage on type %%s to %%s',
            pg_catalog.format_type(t.oid, null), c.relowner::pg_catalog.regrole)
    where not pg_catalog.has_type_privilege(c.relowner, t.oid, 'USAGE')
) g
where n.nspname = %(schema)s and c.relname = %(name)s and c.relkind in ('r', 'p')
    and londiste._is_of_others(c.relowner)
