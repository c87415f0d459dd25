-- The names, of %(names)s with quotes, that other tables have than those of %(oids)s.
select array(
    select t.name
    from unnest(%(oids)s::int8[], %(names)s::text[]) as t(oid, name)
    where pg_catalog.to_regclass(t.name) is distinct from t.oid::oid)
