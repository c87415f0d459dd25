-- Triggers on other people's tables that use a function of one of the schemas %(schemas)s.
select c.oid::regclass::text as table_name, t.tgname::text as trigger_name
from pg_catalog.pg_trigger as t
join pg_catalog.pg_class as c on c.oid = t.tgrelid
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
join pg_catalog.pg_proc as p on p.oid = t.tgfoid
join pg_catalog.pg_namespace as f on f.oid = p.pronamespace
where f.nspname = any(%(schemas)s)
    and n.nspname <> all(%(schemas)s)
    and t.tgconstrindid = 0
    and t.tgparentid = 0
order by c.oid::regclass::text, t.tgname;
