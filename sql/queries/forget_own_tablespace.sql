-- For this transaction: default_tablespace may name the tablespace of the database itself.  For plain
-- tables that means the same as no name; CREATE of a partitioned table refuses it.
select pg_catalog.set_config('default_tablespace', '', true)
from pg_catalog.pg_database as d
join pg_catalog.pg_tablespace as s on s.oid = d.dattablespace
where d.datname = pg_catalog.current_database()
    and s.spcname = pg_catalog.current_setting('default_tablespace');
