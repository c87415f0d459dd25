-- Constraints that are checked at the commit unless SET CONSTRAINTS says otherwise, by their names.
-- A name that another constraint of the schema has, too, is one of these only if they all are.
-- Runs with the search path of a script, so operators and aggregates have their schema.
select n.nspname as schema, o.conname as name
from pg_catalog.pg_constraint o
    join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) o.connamespace
where pg_catalog.has_schema_privilege(n.oid, 'usage')
    and not pg_catalog.pg_is_other_temp_schema(n.oid)
group by n.nspname, o.conname
having pg_catalog.bool_and(o.condeferred)
order by n.nspname, o.conname
