-- The functions of schema %(schema)s that take or return whole rows of its tables.
select distinct p.oid::regprocedure::text
from pg_catalog.pg_proc as p
join pg_catalog.pg_type as t
    on t.oid = p.prorettype or t.oid = any (p.proargtypes)
join pg_catalog.pg_class as c on c.oid = t.typrelid
where p.pronamespace = %(schema)s::regnamespace
    and c.relnamespace = p.pronamespace;
