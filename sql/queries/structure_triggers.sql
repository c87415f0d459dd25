/*
 * Triggers of tables that somebody made; none of the queue and of replication.
 *
 * %(oids)s -- the tables.
 * enabled: O fires for the application, R for replication, A always, D never.
 * cloned -- a partition has it of its parent; parent_enabled is how it fires there.
 */
select
    t.tgrelid::int8 as oid,
    t.tgname::text as name,
    t.tgenabled::text as enabled,
    pg_catalog.pg_get_triggerdef(t.oid) as definition,
    t.tgparentid <> 0 as cloned,
    p.tgenabled::text as parent_enabled,
    t.tgconstrrelid <> 0 as from_other,
    pg_catalog.obj_description(t.oid, 'pg_trigger') as comment
from pg_catalog.pg_trigger t
join pg_catalog.pg_proc f on f.oid = t.tgfoid
join pg_catalog.pg_namespace n on n.oid = f.pronamespace
left join pg_catalog.pg_trigger p on p.oid = t.tgparentid
where t.tgrelid = any(%(oids)s::oid[])
    and t.tgconstrindid = 0
    and n.nspname not in ('pgq', 'londiste', 'londiste_capture')
order by t.tgrelid, t.tgname
