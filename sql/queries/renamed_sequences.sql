-- Sequences that have another name now: the name before, and the present one.
-- %(names)s, %(oids)s names and oids before.
select b.name, n.nspname || '.' || c.relname
from unnest(%(names)s::text[], %(oids)s::oid[]) as b(name, oid)
    join pg_catalog.pg_class c on c.oid = b.oid
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname || '.' || c.relname <> b.name
