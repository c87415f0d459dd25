-- What a unique index of a table by its name is: its schema, whether a constraint owns it, primary key.
select n.nspname, k.oid is not null, i.indisprimary
from pg_catalog.pg_index as i
    join pg_catalog.pg_class as c on c.oid = i.indexrelid
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    left join pg_catalog.pg_constraint as k on k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x')
where i.indrelid = %s
    and c.relname = %s
