-- Whether other tables inherit from a table that is not partitioned.  %(relation)s
select exists (
    select from pg_catalog.pg_inherits as i
    join pg_catalog.pg_class as c on c.oid = i.inhparent
    where c.oid = pg_catalog.to_regclass(%(relation)s) and c.relkind <> 'p'
);
