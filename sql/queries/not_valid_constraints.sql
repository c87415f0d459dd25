-- Checks (c) and NOT NULLs (n) that hold for new rows only: existing rows may violate them.
select case when k.conrelid <> 0 then 'table ' else 'domain ' end
        || pg_catalog.format('%%I.%%I', n.nspname, coalesce(c.relname, t.typname)) as owner,
    k.conname::text as name
from pg_catalog.pg_constraint k
left join pg_catalog.pg_class c on c.oid = k.conrelid
left join pg_catalog.pg_type t on t.oid = k.contypid
join pg_catalog.pg_namespace n on n.oid = coalesce(c.relnamespace, t.typnamespace)
where k.contype = any(%(kinds)s::"char"[]) and not k.convalidated
    -- From PostgreSQL 18 on it may hold for no row.
    and coalesce(pg_catalog.to_jsonb(k) ->> 'conenforced', 'true') = 'true'
    and n.nspname !~ '^pg_'
    and n.nspname not in
        ('information_schema', 'pgq', 'pgq_ext', 'pgq_coop', 'pgq_node', 'londiste',
         'londiste_capture', 'londiste_apply')
order by 1, 2
