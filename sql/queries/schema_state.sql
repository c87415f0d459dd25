-- What tells the schemas %(schemas)s of this database apart from others, and from themselves under
-- another owner or with other rights: a row for each that is there.
--   database  it is this one, since it was created or copied from another one, of a server since its start
select b.oid::pg_catalog.text || ' ' || b.xmin::pg_catalog.text || ' '
        || pg_catalog.pg_postmaster_start_time()::pg_catalog.text as database,
    n.nspname::pg_catalog.text as name, n.oid, n.xmin::pg_catalog.text as changed
from pg_catalog.pg_database b
left join pg_catalog.pg_namespace n on n.nspname = any (%(schemas)s::pg_catalog.name[])
where b.datname = pg_catalog.current_database()
order by n.nspname
