/*
 * Where rows are moved from a table into a partition as the owner of the partition, who lacks the
 * right to read them: that owner, and the owner of the table.  No row where nothing is missing.
 *
 * %(part)s, %(relation)s -- the partition, and the table.
 */
select
    p.relowner::pg_catalog.regrole::text as owner,
    t.relowner::pg_catalog.regrole::text as owner_of_table,
    n.nspname as schema_of_table
from pg_catalog.pg_class p
join pg_catalog.pg_class t on t.oid = pg_catalog.to_regclass(%(relation)s)
join pg_catalog.pg_namespace n on n.oid = t.relnamespace
where p.oid = pg_catalog.to_regclass(%(part)s)
    and londiste._is_of_others(p.relowner)
    and not (pg_catalog.has_table_privilege(p.relowner, t.oid, 'SELECT')
        and pg_catalog.has_schema_privilege(p.relowner, n.oid, 'USAGE'));
