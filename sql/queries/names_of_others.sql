-- The tables, of %(schemas)s and %(names)s, whose names are not those of %(oids)s.
select array(
    select t.schema || '.' || t.name
    from unnest(%(oids)s::int8[], %(schemas)s::text[], %(names)s::text[]) as t(oid, schema, name)
    where not exists (
        select from pg_catalog.pg_class as c
            join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
        where c.oid = t.oid::oid and c.relname = t.name and n.nspname = t.schema))
