-- Schema and name of the relation that the text %(relation)s means; no row when there is none.
select n.nspname::text, c.relname::text
from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where c.oid = pg_catalog.to_regclass(%(relation)s);
