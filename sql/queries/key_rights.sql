/*
 * Whether the owner of a table has the rights to add a foreign key; no row if the table is not
 * written as its owner.
 *
 * %(schema)s, %(name)s -- the table; %(to_schema)s, %(to_name)s -- the one that the key refers to.
 */
select
    c.relowner::pg_catalog.regrole::text as owner,
    pg_catalog.has_schema_privilege(c.relowner, tn.oid, 'USAGE') as may_use,
    pg_catalog.has_any_column_privilege(c.relowner, t.oid, 'REFERENCES') as may_refer
from pg_catalog.pg_class c
join pg_catalog.pg_namespace cn on cn.oid = c.relnamespace
join pg_catalog.pg_namespace tn on tn.nspname = %(to_schema)s
join pg_catalog.pg_class t on t.relnamespace = tn.oid and t.relname = %(to_name)s
where cn.nspname = %(schema)s and c.relname = %(name)s
    and c.relkind in ('r', 'p') and t.relkind in ('r', 'p')
    and londiste._is_of_others(c.relowner)
