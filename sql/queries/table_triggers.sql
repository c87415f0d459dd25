/*
 * Triggers of one table that somebody made (none of the system's own).
 *
 * %(schema)s, %(name)s -- the table; its size is not read, which would wait for its partitions.
 * enabled: 'O' fires for the application, 'R' for replication, 'A' always, 'D' never.
 */
select
    t.tgname as name,
    t.tgenabled::text as enabled,
    n.nspname || '.' || p.proname as function,
    pg_catalog.pg_get_triggerdef(t.oid) as definition
from pg_catalog.pg_trigger t
join pg_catalog.pg_proc p on p.oid = t.tgfoid
join pg_catalog.pg_namespace n on n.oid = p.pronamespace
join pg_catalog.pg_class c on c.oid = t.tgrelid
join pg_catalog.pg_namespace s on s.oid = c.relnamespace
where s.nspname = %(schema)s
    and c.relname = %(name)s
    and t.tgconstrindid = 0
order by t.tgname
