-- The databases of this server that this user can connect to, without templates.
select d.datname::text
from pg_catalog.pg_database as d
where d.datallowconn
    and not d.datistemplate
    and pg_catalog.has_database_privilege(d.oid, 'connect')
order by d.datname;
