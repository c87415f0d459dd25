-- Functions of users with the names %(names)s: what is in them.
select
    p.proname::text as name,
    l.lanname in ('sql', 'plpgsql') as readable,
    p.provolatile = 'v' as volatile,
    coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), p.prosrc) as source
from pg_catalog.pg_proc p
join pg_catalog.pg_language l on l.oid = p.prolang
join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where p.proname = any (%(names)s::name[])
    and n.nspname not in (
        'pg_catalog', 'information_schema', 'pgq', 'pgq_node', 'pgq_coop', 'pgq_ext', 'londiste',
        'londiste_capture')
order by 1
