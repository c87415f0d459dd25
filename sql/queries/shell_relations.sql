-- Tables and sequences that are not those of the system, as the queue names them.
select
    case when c.relkind = 'S' then 'sequence' else 'table' end,
    format('%s.%s', n.nspname, c.relname)
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'S')
    and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
    and not (n.nspname = 'pgq' and c.relname like 'event\_%')
    and not c.relispartition
order by 1, 2
limit 5000;
