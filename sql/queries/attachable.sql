-- Whether something has the name %(relation)s, and whether it is a table that can become a partition.
select
    c.oid is not null as taken,
    coalesce(c.relkind in ('r', 'p') and not c.relispartition, false) as attachable
from (select pg_catalog.to_regclass(%(relation)s) as oid) n
left join pg_catalog.pg_class c on c.oid = n.oid
