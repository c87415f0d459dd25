/*
 * Fingerprint of the relations and functions of Londiste's own schemas, by the catalog alone: a
 * script may have dropped them.
 *
 * Left out is what is created and dropped with queues, batches, copies and captures.
 */
select pg_catalog.md5(pg_catalog.string_agg(o.shape, ',' order by o.shape))
from (
    select pg_catalog.format('%s %s %s %s %s', c.oid, c.relname, c.relkind, c.relowner, (
        select pg_catalog.string_agg(
            pg_catalog.format('%s %s %s %s', a.attnum, a.attname, a.atttypid, a.attnotnull), ','
            order by a.attnum)
        from pg_catalog.pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0)) as shape, c.relnamespace as schema
    from pg_catalog.pg_class c
    where c.relkind in ('r', 'v', 'S', 'p')
        and c.relname !~ '^(event_[0-9]|staged_)'
        and not exists (
            select from pg_catalog.pg_inherits h
            where h.inhrelid = c.oid)
    union all
    select pg_catalog.format('%s %s %s', p.oid, p.proname, p.proargtypes), p.pronamespace
    from pg_catalog.pg_proc p
    where not pg_catalog.starts_with(p.proname, '_capture_')
) o
    join pg_catalog.pg_namespace n on n.oid = o.schema
where n.nspname in ('pgq', 'pgq_node', 'pgq_ext', 'pgq_coop', 'londiste')
