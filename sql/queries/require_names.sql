-- Fails with 22P02 unless tables have these names: %(oids)s, %(names)s with quotes.
select (case
    when pg_catalog.bool_and(pg_catalog.to_regclass(t.name) is not distinct from t.oid::oid) then 't'
    else 'a table has changed'
    end)::bool
from unnest(%(oids)s::int8[], %(names)s::text[]) as t(oid, name)
