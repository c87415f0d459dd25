-- The functions %(signatures)s of no extension: schema and the statement that makes each.
select f.oid::pg_catalog.regprocedure::text as signature, n.nspname::text as schema,
    pg_catalog.pg_get_functiondef(f.oid) as definition
from pg_catalog.unnest(%(signatures)s::text[]) s
join pg_catalog.pg_proc f on f.oid = pg_catalog.to_regprocedure(s)
join pg_catalog.pg_namespace n on n.oid = f.pronamespace
join pg_catalog.pg_language l on l.oid = f.prolang
where f.prokind <> 'a' and l.lanname not in ('c', 'internal')
order by 1
