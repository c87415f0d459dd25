-- The tables with triggers that write events by the three functions of pgq: name, and oid of the schema.
-- Other relations with such triggers are not read.
select distinct t.tgrelid::pg_catalog.regclass::pg_catalog.text as table_name, c.relnamespace::pg_catalog.int8
from pg_catalog.pg_trigger as t
    join pg_catalog.pg_class as c on c.oid = t.tgrelid and c.relkind in ('r', 'p')
    join pg_catalog.pg_proc as p on p.oid = t.tgfoid
where p.pronamespace = pg_catalog.to_regnamespace('pgq')
    and p.proname in ('sqltriga', 'logutriga', 'jsontriga')
    and (t.tgtype & 1) <> 0
    and t.tgparentid = 0
    and t.tgconstrindid = 0
order by 1
