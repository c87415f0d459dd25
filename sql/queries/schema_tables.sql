-- The tables of schema %(schema)s, each behind those that its foreign keys name.
with recursive names as (
    select c.oid, c.relname
    from pg_catalog.pg_class as c
    where c.relnamespace = %(schema)s::regnamespace and c.relkind = 'r'
),
deep as (
    select n.oid, 0 as depth from names as n
    union all
    select k.conrelid, d.depth + 1
    from deep as d
    join pg_catalog.pg_constraint as k
        on k.confrelid = d.oid and k.contype = 'f' and k.conrelid <> d.oid
    join names as n on n.oid = k.conrelid
    where d.depth < 50
)
select n.relname::text
from names as n join deep as d using (oid)
group by n.relname
order by max(d.depth), n.relname;
