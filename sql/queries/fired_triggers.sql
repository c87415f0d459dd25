-- Triggers of users that fire when a script does %(op)s on table %(schema)s.%(name)s.
select
    t.tgname::text as name,
    p.proname::text as function
from pg_catalog.pg_trigger t
join pg_catalog.pg_class c on c.oid = t.tgrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_proc p on p.oid = t.tgfoid
where n.nspname = %(schema)s and c.relname = %(name)s
    and t.tgconstrindid = 0
    and t.tgenabled in ('O', 'A')
    and t.tgtype & case %(op)s when 'insert' then 4 when 'delete' then 8 when 'update' then 16
        else 28 end <> 0
order by 1
